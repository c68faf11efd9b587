"""Find the recording that fits a step, or make it."""

import logging
from collections.abc import Mapping

from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine.needs import Need
from cockpit.engine.program import Occasion, Program
from cockpit.engine.recorder import Recorder
from cockpit.engine.settings import Settings

log = logging.getLogger("cockpit")


def performing(
    recorder: Recorder, settings: Settings, due: frozenset[Need], leaving: bool, start: Mapping[str, Tensor]
) -> Program | None:
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
    )
    program = programs.find(micro.structure, occasion)
    if program is None and programs.replayer is not None and programs.wants(micro.structure, occasion, micro.raw):
        parameters = {name: theta.detach() for name, theta in recorder.parameters.items()}
        try:
            program = Program(micro.raw, micro, parameters, recorder.gradient, start, occasion, programs.replayer)
        except Exception as error:  # what cannot be recorded is computed step by step
            log.info("a step cannot be recorded for replay: %s", why(error))
        programs.add(micro.structure, occasion, program)
    return program if program is not None and program.fits(recorder.parameters, recorder.gradient) else None
