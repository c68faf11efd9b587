"""Which curvature a number was computed from, in words."""

from cockpit.panels.runs import Runs

WORDS = {
    "ggn": "exact Gauss-Newton",
    "hessian": "exact Hessian",
    "ggn_mc": "Gauss-Newton, Monte Carlo",
    "hutchinson": "Hessian, Hutchinson's estimate",
}


def curvature_kind(runs: Runs, name: str) -> str:
    """Name the curvature that was used; several when runs differ, nothing when a log does not say it."""
    said = [source.constant(name, "curvature") for source in runs.sources]
    return "; ".join(dict.fromkeys(WORDS.get(word, word) for word in said if word))
