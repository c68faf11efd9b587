"""Run the table of cases and the goldens on the engine that is being built: `python benchmarks/new_engine.py [-k ...]`.

It takes the places of `Recorder` and `Observation` in the tracker; nothing else knows of it.
"""

import sys
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit import measurements, tracker
from cockpit.departure import Departure
from cockpit.engine.step.backward import Pass
from cockpit.engine.step.numbers import Numbers
from cockpit.engine.step.observation import Observation
from cockpit.engine.step.recorder import Recorder
from cockpit.engine.step.settings import Settings
from cockpit.tracker import Tracker

WHERE = ["tests/test_table.py", "tests/test_drawn.py", "tests/test_goldens.py"]


class Recording(Recorder):
    """As the tracker calls it."""

    half = None
    prompt = True
    replayable = False

    def gradient_is_untouched(self) -> bool:
        """Updates are projected on, always."""
        return False

    def __init__(self, step: int, parameters: Any, needs: Any, settings: Any) -> None:
        new = settings.__dict__.get("new")
        if new is None:
            new = settings.__dict__["new"] = Settings(
                settings.batch_axis, settings.batch_size, settings.losses, settings.scale, seed=settings.seed
            )
        self.old = settings
        super().__init__(step, parameters, needs, new)

    @property
    def microbatches(self) -> list[Pass]:
        """The passes."""
        return self.passes

    def before(self, roots: Any, seeds: Any) -> None:
        """Compiled code runs eagerly from the next step on."""
        super().before(roots, seeds)
        self.old.compiled_seen |= self.settings.compiled_seen


class Observed(Observation):
    """As the tracker calls it."""

    prompt = True

    @property
    def microbatches(self) -> list[Pass]:
        """The passes."""
        return self.passes

    @property
    def reduction(self) -> Any:
        """What the tracker reads of it."""
        return SimpleNamespace(of_mean={}, taken={}, directions=self.directions)

    def moved(self, update: Any, leaving: bool = False, motion: Any = None) -> None:
        """Without a motion."""
        super().moved(update, leaving)


def exchange() -> None:
    """From now on, everything is measured by the new engine."""
    Pass.raw = None  # type: ignore[attr-defined]
    Pass.thaw = lambda self: None  # type: ignore[attr-defined]
    Numbers.size = 1  # type: ignore[attr-defined]
    tracker.Recorder = Recording  # type: ignore[assignment,misc]
    tracker.Observation = Observed  # type: ignore[assignment,misc]
    Tracker._observe = _observe  # type: ignore[method-assign]
    Tracker._depart = _depart  # type: ignore[method-assign]
    measurements.alike = lambda one, other: False
    before = Tracker.before

    def told(self: Tracker, roots: Any, seeds: Any) -> None:
        departure, recorder = self._departure, self.recorder
        if recorder is not None and departure is not None and departure.step == recorder.step - 1:
            recorder.line = departure.direction  # type: ignore[attr-defined]
        before(self, roots, seeds)

    Tracker.before = told  # type: ignore[method-assign]


def _observe(self: Tracker, recorder: Any) -> Any:
    parameters: Mapping[str, Any] = {name: p.detach() for name, p in recorder.parameters.items()}
    self._observation = Observed(
        step=recorder.step,
        parameters=dict(parameters),
        gradient=recorder.gradient,
        passes=recorder.passes,
        settings=recorder.settings,
        loss_scale=recorder.loss_scale,
        learning_rates=self._learning_rates(),
        start=self.start,
        elapsed=time.perf_counter() - self._begin,
        flaw=recorder.flaw,
        root=recorder.root,
        leaves=list(recorder.parameters.values()),
    )
    return self._observation


def _depart(self: Tracker, step: Any) -> None:
    if not self._agenda.later:
        return
    departure = self._departure = Departure(step.step, self._agenda.later)
    if step.update is not None and self._agenda.leaving:
        departure.direction = step.directions
        self._measurements.of(step).leaving = departure


if __name__ == "__main__":
    exchange()
    given = sys.argv[1:]
    files = [] if any(argument.startswith("tests") for argument in given) else WHERE
    sys.exit(
        pytest.main(
            [
                *files,
                "-q",
                "-p",
                "no:cacheprovider",
                *given,
                "--deselect",
                "tests/test_table.py::test_steps_that_are_made_again",
            ]
        )
    )
