"""What a worker does with runs: in packs where they may go together; a failure is a result, too."""

import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cockpit.bench import packs
from cockpit.bench.plan import Plan
from cockpit.bench.runner import Session
from cockpit.bench.sweep.making import Context, Maker
from cockpit.results.result import Result
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.store import Entry

ATTEMPTS = 2  # of a run that raises
LONGEST = 8000  # characters of a traceback that are kept


@dataclass
class Worker:
    """Carries out runs."""

    context: Context
    _maker: Maker = field(default_factory=Maker)

    def carry_out(self, specs: Sequence[Spec]) -> Iterator[list[Entry]]:
        """Train runs; gives what has ended as soon as it has."""
        alone: list[tuple[Spec, Plan]] = []
        together: dict[Hashable, list[tuple[Spec, Plan]]] = {}
        for spec in specs:
            try:
                plan = self._maker.plan(spec)
            except Exception as error:
                yield [failed(spec, _said(error), traceback.format_exc())]
                continue
            key = packs.together(plan)
            (alone if key is None else together.setdefault(key, [])).append((spec, plan))
        for pack in together.values():
            yield self._pack(pack)
        for spec, plan in alone:
            yield [self._attempts(spec, lambda plan=plan, spec=spec: self._session(spec, plan))]  # type: ignore[misc]

    def _pack(self, pack: Sequence[tuple[Spec, Plan]]) -> list[Entry]:
        """Train a pack; what raised in it is tried again alone. If a pack raises, its halves, until that is alone."""
        if len(pack) == 1:
            (spec, plan), *_ = pack
            return [self._attempts(spec, lambda: self._trained(plan))]
        begin = time.perf_counter()
        try:
            outcomes = packs.train([plan for _, plan in pack], self.context.place, self.context.device)
        except (Exception, SystemExit):
            middle = len(pack) // 2
            return self._pack(pack[:middle]) + self._pack(pack[middle:])
        share = (time.perf_counter() - begin) / len(pack)
        return [
            entry(spec, one, share)
            if isinstance(one, Result)
            else self._attempts(spec, lambda plan=plan: self._trained(plan), done=1)  # type: ignore[misc]
            for (spec, plan), one in zip(pack, outcomes, strict=True)
        ]

    def _trained(self, plan: Plan) -> Result:
        (one,) = packs.train([plan], self.context.place, self.context.device)
        if isinstance(one, packs.Failed):
            raise one.error
        return one

    def _session(self, spec: Spec, plan: Plan) -> Result:
        """Train a run that keeps its state on disk: it goes on at its epoch when it was killed."""
        out = Path(self.context.scratch) / spec.id
        device = torch.device(self.context.device)
        return Session(plan.problem, plan.variant, self.context.place, device, out).run(plan)

    def _attempts(self, spec: Spec, train: Callable[[], Result], done: int = 0) -> Entry:
        """Train one run, twice if need be; so many attempts were made."""
        begin = time.perf_counter()
        for _ in range(done, ATTEMPTS):
            try:
                return entry(spec, train(), time.perf_counter() - begin)
            except (Exception, SystemExit) as error:
                said, trace = _said(error), traceback.format_exc()
        return failed(spec, said, trace, ATTEMPTS, time.perf_counter() - begin)


def entry(spec: Spec, result: Result, seconds: float) -> Entry:
    """A result as it is stored."""
    state = "finished" if result.diverged is None else "diverged"
    return Entry(spec.id, spec.identity, state, result.curves, result.diverged, machine=machine(), seconds=seconds)


def failed(spec: Spec, message: str, trace: str | None, attempts: int = 1, seconds: float = 0.0) -> Entry:
    """A failure as it is stored."""
    shown = None if trace is None else trace[-LONGEST:]
    return Entry(
        spec.id,
        spec.identity,
        "failed",
        message=message,
        trace=shown,
        attempts=attempts,
        machine=machine(),
        seconds=seconds,
    )


def machine() -> dict[str, Any]:
    """What numbers may depend on besides the run."""
    return {
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_initialized() else "cpu",
        "threads": torch.get_num_threads(),
    }


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
