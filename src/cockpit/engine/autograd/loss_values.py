"""Operations that a loss is made of: which are linear, and which results are known from what autograd saved."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine.autograd.graph import Node, family, signed

LINEAR = frozenset(
    (
        "Add", "Alias", "AsStrided", "BackwardHookFunction", "Cat", "Clone", "ConstantPadNd", "Contiguous", "Cumsum",
        "Diagonal", "Expand", "Flip", "Gather", "Index", "IndexSelect", "MaskedFill", "MaskedSelect", "Mean", "Narrow",
        "Neg", "NllLoss", "NllLoss2D", "Permute", "Repeat", "ReshapeAlias", "Roll", "Rsub", "Select", "Slice", "Split",
        "SplitWithSizes", "Squeeze", "Stack", "Sub", "Sum", "T", "Take", "ToCopy", "Trace", "Transpose", "Unbind",
        "UnsafeView", "Unsqueeze", "View", "Where",
    )
)  # fmt: skip
PASSED = frozenset(  # the same numbers in the same order
    ("Alias", "Clone", "Contiguous", "ReshapeAlias", "Squeeze", "ToCopy", "UnsafeView", "Unsqueeze", "View")
)
DATALESS = frozenset(  # nothing but operands with a gradient decides what comes out
    (
        "Abs", "Add", "Alias", "Cat", "Clone", "Contiguous", "Diagonal", "Div", "Exp", "Expand", "LinalgVectorNorm",
        "Log", "Log1p", "Logsumexp", "Mean", "Mm", "Mul", "Neg", "Norm", "Permute", "Pow", "Reciprocal", "Relu",
        "ReshapeAlias", "Select", "Sigmoid", "Slice", "Softplus", "Split", "Sqrt", "Squeeze", "Stack", "Sub", "Sum",
        "T", "Tanh", "ToCopy", "Trace", "Transpose", "Unbind", "UnsafeView", "Unsqueeze", "View",
    )
)  # fmt: skip
ADDS = frozenset(("Add", "Sub", "Rsub"))
REDUCTIONS = ("none", "mean", "sum")


def _saved(name: str) -> Callable[[Node], Tensor]:
    """What the operation saved is its result."""
    return lambda node: _tensor(getattr(node, f"_saved_{name}"))


def _of(function: Callable[..., Tensor], *names: str) -> Callable[[Node], Tensor]:
    """A function of what the operation saved."""
    return lambda node: function(*(_tensor(getattr(node, f"_saved_{name}")) for name in names))


def _picked(node: Node) -> Tensor:
    """Entries of a result that is known itself."""
    below = node.next_functions[0][0]
    indices = [slice(None) if index is None else index for index in node._saved_indices]
    return VALUES[kind(below)](below)[tuple(indices)]


def _affine(node: Node) -> Tensor:
    """``self + mat1 @ mat2``, whose bias is a leaf."""
    bias: Any = node.next_functions[0][0]
    return F.linear(node._saved_mat1, node._saved_mat2.mT * node._saved_alpha, bias.variable)


VALUES: dict[str, Callable[[Node], Tensor]] = {  # of the result
    "Abs": _of(torch.abs, "self"),
    "Addmm": _affine,
    "Clamp": _of(torch.clamp, "self", "min", "max"),
    "ClampMax": _of(torch.clamp_max, "self", "max"),
    "ClampMin": _of(torch.clamp_min, "self", "min"),
    "CtcLoss": _saved("result0"),
    "Div": _of(torch.div, "self", "other"),
    "Exp": _saved("result"),
    "Expm1": _saved("result"),
    "Gather": lambda node: node._saved_self.gather(signed(node._saved_dim), node._saved_index),
    "Index": _picked,
    "LinalgVectorNorm": _saved("result"),
    "Log": _of(torch.log, "self"),
    "Log1p": _of(torch.log1p, "self"),
    "LogSigmoid": _of(F.logsigmoid, "self"),
    "LogSoftmax": _saved("result"),
    "Logsumexp": _saved("result"),
    "Maximum": _of(torch.maximum, "self", "other"),
    "Minimum": _of(torch.minimum, "self", "other"),
    "Mm": _of(torch.mm, "self", "mat2"),
    "Mul": _of(torch.mul, "self", "other"),
    "Norm": _saved("result"),
    "Pow": _of(torch.pow, "self", "exponent"),
    "Reciprocal": _saved("result"),
    "Relu": _saved("result"),
    "Sigmoid": _saved("result"),
    "Softmax": _saved("result"),
    "Softplus": _of(F.softplus, "self", "beta", "threshold"),
    "Sqrt": _saved("result"),
    "Tanh": _saved("result"),
}


FUSED: dict[str, tuple[Callable[..., Tensor], tuple[str, ...]]] = {  # losses of predictions, and what they take beside
    "BinaryCrossEntropy": (F.binary_cross_entropy, ("weight",)),
    "BinaryCrossEntropyWithLogits": (F.binary_cross_entropy_with_logits, ("weight", "pos_weight")),
    "HuberLoss": (F.huber_loss, ("delta",)),
    "MseLoss": (F.mse_loss, ()),
    "SmoothL1Loss": (F.smooth_l1_loss, ("beta",)),
    "SoftMarginLoss": (F.soft_margin_loss, ()),
}
CLASSES = frozenset(("NllLoss", "NllLoss2D"))  # one of the prediction's axes is not an axis of these losses
SHALLOW = CLASSES | {"Gather", "Index"}  # linear, and known themselves


def fused(node: Node, prediction: Tensor, reduction: str) -> Tensor:
    """A loss evaluated once more, in the precision of the predictions that are given."""
    function, names = FUSED[kind(node)]
    saved = {name: getattr(node, f"_saved_{name}") for name in ("target", *names)}
    known = {k: v.detach().to(prediction.dtype) if isinstance(v, Tensor) else v for k, v in saved.items()}
    return function(prediction, reduction=reduction, **known)


def passes(node: Node, deep: bool) -> bool:
    """Whether the operation is linear in what has a gradient, and not to be read itself."""
    name, operands = kind(node), [operand for operand, _ in node.next_functions]
    if name in SHALLOW and not deep:
        return name == "Index" and kind(operands[0]) not in VALUES
    if name == "Mul":
        return len(operands) < 2 or None in operands
    if name == "Div":
        return len(operands) < 2 or operands[1] is None
    return name in LINEAR


def kind(node: Node) -> str:
    """Name of an operation."""
    return family(node).removesuffix("Backward")


def wide(tensor: Tensor) -> Tensor:
    """At least single precision."""
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))


def _tensor(value: Any) -> Any:
    return wide(value) if isinstance(value, Tensor) and value.is_floating_point() else value
