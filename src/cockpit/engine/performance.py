"""Find the recording that fits a step, or make it."""

import logging
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine.form_statistics import Direction
from cockpit.engine.needs import Need
from cockpit.engine.occasion import Given, Occasion, Performance
from cockpit.engine.program import Program
from cockpit.engine.recorder import Recorder
from cockpit.engine.settings import Settings
from cockpit.engine.taped import Taped

NOTHING: frozenset[Any] = frozenset()
log = logging.getLogger("cockpit")


def performing(
    recorder: Recorder,
    settings: Settings,
    due: frozenset[Need],
    leaving: bool,
    start: Mapping[str, Tensor],
    line: Mapping[str, Direction],
) -> tuple[Performance, Given] | None:
    """The program for a step with one backward pass whose tensors were collected, and what it is given; or None."""
    programs, micro = settings.programs, recorder.microbatches[0]
    occasion = Occasion(
        recorder.needs,
        due,
        leaving,
        recorder.loss_scale,
        recorder.half,
        frozenset(settings.regularised) if settings.regularised else NOTHING,
        frozenset(k for k, found in micro.diagonals.items() if isinstance(found, list)) if micro.diagonals else NOTHING,
        frozenset([name for name, direction in line.items() if direction.mean_of is not None]),
        bool(line) or programs.replayer is not None,  # on a GPU one recording does for both
        settings.ways,
    )
    given = Given(micro.raw, micro, recorder.parameters, recorder.gradient, line)
    program = programs.find(micro.structure, occasion)
    if program is None and programs.wants(micro.structure, occasion, micro.raw):
        replayer = programs.replayer
        try:
            if replayer is None:
                program = Taped(given, start, occasion)
            else:
                with programs.stock.drawing() as draw:
                    program = Program(given, start, occasion, replayer, draw)
        except Exception as error:  # what cannot be recorded is computed step by step
            log.info("a step cannot be recorded for replay: %s", why(error))
        programs.add(micro.structure, occasion, program)
    return None if program is None or not program.fits(given) else (program, given)
