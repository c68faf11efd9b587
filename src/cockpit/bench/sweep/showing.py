"""The report of a sweep, in any format."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps import formats
from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.reading import read
from cockpit.results.sweeps.report import Report
from cockpit.results.sweeps.store import Store


def reported(
    what: Path,
    plan: SweepPlan,
    store: Store | None,
    others: Sequence[Path] = (),
    format: str = "text",
    published: bool = False,
    width: int | None = None,
    costs: Mapping[str, float] | None = None,
) -> str:
    """The report of a sweep.

    Args:
        what: What the user named, for the message if there is nothing to report.
        plan: What is asked for.
        store: Its results; None before the first sweep.
        others: Folders of sweeps whose results are baselines.
        format: ``"text"``, ``"html"``, ``"latex"``, ``"csv"`` or ``"json"``.
        published: Whether the published study's figures stand beside.
        width: Of the terminal.
        costs: Training times beside SGD's, by optimizer.
    """
    beside = tuple(read(Store(folder)) for folder in others)
    found = None if store is None else Report(read(store, plan), beside, costs or {})
    if found is None or not any(one.values for one in found.reading.cells):
        raise CockpitError(f"{what}: nothing to report, no run has finished; `cockpit bench sweep` trains them")
    if format == "html":
        from cockpit.plots.sweep import page

        return page(found, published)
    return formats.text(found, published, width) if format == "text" else formats.render(found, format, published)
