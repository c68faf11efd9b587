"""Criteria built on gradient noise: CABS, EarlyStopping, MeanGSNR."""

from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, Track, draw, now, track
from cockpit.panels.runs import Runs

CABS = Instrument(
    "cabs",
    "CABS batch size",
    "more",
    "What batch size does the learning rate call for?",
    "Batch size that balances noise against progress: learning rate times gradient variance over loss, beside the one "
    "in use. Healthy is the two within a factor of ten; far above the batch in use: enlarge the batch or lower the "
    "learning rate; far below: a smaller batch would do.",
    ("CABS", "batch_size"),
)
EARLY_STOPPING = Instrument(
    "early-stopping",
    "Early stopping",
    "more",
    "Is there signal left in the gradients?",
    "Evidence that gradients are nothing but noise: negative while there is signal, positive when there is none. "
    "Healthy is below 0 during training; above 0 for many steps: stop, or lower the learning rate and see whether it "
    "falls again.",
    ("EarlyStopping",),
)
GSNR = Instrument(
    "gsnr",
    "Mean GSNR",
    "more",
    "Do the samples agree?",
    "Squared mean of each gradient element over its variance, averaged: how much the samples agree. Healthy is high "
    "early and falling; near 0 from the start: noise rules, enlarge the batch, look at the labels or the scale of the "
    "data.",
    ("MeanGSNR",),
)


def cabs(runs: Runs) -> Panel:
    """Show the suggested batch size with the batch size in use."""
    sizes = [runs.scalar(place, "batch_size").defined() for place in range(len(runs))]
    tracks = [track(runs, "CABS", "suggested", error=None)]
    if any(len(series) for series in sizes):
        tracks.append(Track("in use", "batch_size", sizes, reference=True))
    seen = [float(series.values.max()) for series in sizes if len(series)]
    facts = now(runs, tracks[0])
    return draw(CABS, runs, Chart(tracks, "samples", scale="log", include=seen, facts=facts))


def early_stopping(runs: Runs) -> Panel:
    """Show the evidence with the line where it turns."""
    one = track(runs, "EarlyStopping", error=None)
    chart = Chart([one], "evidence", (0.0,), "linear", [0.0], now(runs, one))
    return draw(EARLY_STOPPING, runs, chart)


def gsnr(runs: Runs) -> Panel:
    """Show the mean signal-to-noise ratio."""
    one = track(runs, "MeanGSNR", error=None)
    return draw(GSNR, runs, Chart([one], "signal / noise", scale="log", facts=now(runs, one)))
