"""What problems share: individual losses, accuracies, and which weights an L2 term covers."""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of each sample, [N], of logits [N, C] and labels [N]."""
    return F.cross_entropy(outputs, targets, reduction="none")


def accuracies(outputs: Tensor, targets: Tensor) -> Tensor:
    """1 where the largest logit is that of the label, else 0, [N]."""
    return (outputs.argmax(1) == targets).float()


def sequence_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of each sequence, the mean over its positions, [N], of logits [N, T, C] and labels [N, T]."""
    return F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)


def sequence_accuracies(outputs: Tensor, targets: Tensor) -> Tensor:
    """Share of right next tokens in each sequence, [N]."""
    return (outputs.argmax(2) == targets).float().mean(1)


def convolutions(model: nn.Module) -> list[nn.Parameter]:
    """Weights of convolutions: what an L2 term covers that leaves linear layers alone."""
    kernels = [module.weight for module in model.modules() if isinstance(module, nn.modules.conv._ConvNd)]
    return cast(list[nn.Parameter], kernels)
