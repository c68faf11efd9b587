"""Find the recording that fits a step, or make it."""

import logging
from collections.abc import Mapping

from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine.needs import Need
from cockpit.engine.program import Occasion, Performance, Program
from cockpit.engine.recorder import Recorder
from cockpit.engine.settings import Settings
from cockpit.engine.statistics import Direction
from cockpit.engine.taped import Taped

log = logging.getLogger("cockpit")


def performing(
    recorder: Recorder,
    settings: Settings,
    due: frozenset[Need],
    leaving: bool,
    start: Mapping[str, Tensor],
    line: Mapping[str, Direction],
) -> Performance | None:
    """The program for a step with one backward pass whose tensors were collected; None where there is none."""
    programs, micro = settings.programs, recorder.microbatches[0]
    occasion = Occasion(
        recorder.needs,
        due,
        leaving,
        recorder.loss_scale,
        recorder.half,
        frozenset(settings.regularised),
        frozenset(need for need, found in micro.diagonals.items() if not isinstance(found, str)),
        frozenset(name for name, direction in line.items() if direction.mean_of is not None),
    )
    program = programs.find(micro.structure, occasion)
    if program is None and programs.wants(micro.structure, occasion, micro.raw):
        try:
            program = _recorded(recorder, settings, occasion, start, line)
        except Exception as error:  # what cannot be recorded is computed step by step
            log.info("a step cannot be recorded for replay: %s", why(error))
        programs.add(micro.structure, occasion, program)
    if program is None or not program.fits(micro.raw, micro, recorder.parameters, recorder.gradient, line):
        return None
    return program


def _recorded(
    recorder: Recorder,
    settings: Settings,
    occasion: Occasion,
    start: Mapping[str, Tensor],
    line: Mapping[str, Direction],
) -> Performance:
    micro, replayer = recorder.microbatches[0], settings.programs.replayer
    parameters = {name: theta.detach() for name, theta in recorder.parameters.items()}
    given = micro.raw, micro, parameters, recorder.gradient, start, occasion
    return Taped(*given, line) if replayer is None else Program(*given, replayer)
