"""What has changed since the last sweep of a store: nothing is lost by it, but it is said."""

from collections.abc import Collection, Iterator

from cockpit.results.sweeps.plan import SweepPlan


def changes(before: SweepPlan, now: SweepPlan, stored: Collection[str], named: Collection[str]) -> Iterator[str]:
    """Sentences about a changed study file and changed code.

    Args:
        before: The plan of the last sweep.
        now: The plan of this one.
        stored: Results that are there.
        named: Runs that the plan of this one names.
    """
    for kind, old, new in (
        ("problem", before.problems, now.problems),
        ("optimizer", before.optimizers, now.optimizers),
    ):
        versions = {one.name: one.version for one in old}
        for one in new:
            if versions.get(one.name, one.version) != one.version:
                yield f"{kind} {one.name} has changed: its runs are made anew, the old results stay beside them"
    unnamed = sum(id not in named for id in stored)
    if before != now and unnamed:
        said = "1 result" if unnamed == 1 else f"{unnamed:,} results"
        yield f"the study has changed: {said} of earlier sweeps stay stored, but are not reported"
