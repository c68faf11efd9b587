"""The best value of a metric: the lowest of what should fall, the highest of anything else."""

import re

import numpy as np

from cockpit.core.source import Series

FALLING = re.compile(  # names, or words in them, of what should be small
    r"loss|error|err$|^err|(?:^|[^a-z])(?:ppl|nll|bpc|bpb|mae|mse|rmse|wer|cer|fid|kl|elbo)(?:$|[^a-z])|perplexity|entropy"
    r"|regret|latency|seconds|(?:^|_)time(?:$|_)",
    re.IGNORECASE,
)


def falls(name: str) -> bool:
    """Whether less is better, by the name."""
    return FALLING.search(name) is not None


def best(name: str, series: Series) -> tuple[int, float] | None:
    """Step and value of the best finite number; None if there is none."""
    known = series.defined()
    if not len(known):
        return None
    at = int(np.argmin(known.values) if falls(name) else np.argmax(known.values))
    return int(known.steps[at]), float(known.values[at])
