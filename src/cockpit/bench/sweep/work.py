"""What a worker does with runs: in packs where they may go together; a failure is a result, too."""

import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from cockpit.bench import packs
from cockpit.bench.plan import Plan
from cockpit.bench.progress import Silent
from cockpit.bench.runner import Session
from cockpit.bench.sweep.making import Context, Maker
from cockpit.results.result import Result
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.store import Entry

ATTEMPTS = 2  # of a run that raises
LONGEST = 8000  # characters of a traceback that are kept


class _Epochs(Silent):
    """Tells after each epoch how many there have been."""

    def __init__(self, tell: Callable[[int, int], object]) -> None:
        self._tell = tell

    def epoch(self, epoch: int, result: Result) -> None:
        """See :class:`cockpit.bench.progress.Progress`."""
        self._tell(epoch, result.epochs)


@dataclass
class Worker:
    """Carries out runs; of one that goes alone it tells epochs trained, and in all."""

    context: Context
    tell: Callable[[int, int], object] = lambda trained, epochs: None
    _maker: Maker = field(default_factory=Maker)

    def carry_out(self, specs: Sequence[Spec]) -> Iterator[list[Entry]]:
        """Train runs; gives what has ended as soon as it has."""
        alone: list[tuple[Spec, Plan]] = []
        together: dict[Hashable, list[tuple[Spec, Plan]]] = {}
        for spec in specs:
            try:
                plan = self._maker.plan(spec)
            except Exception:  # a setting that the optimizer refuses, say
                yield [self._attempts(spec, lambda spec=spec: self._alone(self._maker.plan(spec)))]  # type: ignore[misc]
                continue
            key = packs.together(plan)
            (alone if key is None else together.setdefault(key, [])).append((spec, plan))
        for pack in together.values():
            yield self._pack(pack)
        for spec, plan in alone:
            yield [self._attempts(spec, lambda plan=plan, spec=spec: self._session(spec, plan))]  # type: ignore[misc]

    def _pack(self, pack: Sequence[tuple[Spec, Plan]]) -> list[Entry]:
        """Train a pack; if it raises, its halves, until what raises is alone."""
        if len(pack) == 1:
            (spec, plan), *_ = pack
            return [self._attempts(spec, lambda: self._alone(plan))]
        begin = time.perf_counter()
        try:
            results = self._trained([plan for _, plan in pack])
        except (Exception, SystemExit):
            middle = len(pack) // 2
            return self._pack(pack[:middle]) + self._pack(pack[middle:])
        share = (time.perf_counter() - begin) / len(pack)
        entries = []
        for (spec, plan), result in zip(pack, results, strict=True):
            if isinstance(result, Result):
                entries.append(self._entry(spec, result, share))
            else:
                entries.append(self._attempts(spec, lambda plan=plan: self._alone(plan), ATTEMPTS - 1))  # type: ignore[misc]
        return entries

    def _trained(self, plans: Sequence[Plan]) -> "list[Result | packs.Failed]":
        return packs.train(plans, self.context.place, self.context.device)

    def _alone(self, plan: Plan) -> Result:
        """Train a run as a pack of one."""
        (result,) = self._trained([plan])
        if isinstance(result, packs.Failed):
            raise result.error
        return result

    def _session(self, spec: Spec, plan: Plan) -> Result:
        """Train a run that keeps its state on disk: it goes on at its epoch when it was killed."""
        out = Path(self.context.scratch) / spec.id
        device = torch.device(self.context.device)
        told = _Epochs(self.tell)
        return Session(plan.problem, plan.variant, self.context.place, device, out, progress=told).run(plan)

    def _attempts(self, spec: Spec, train: Callable[[], Result], attempts: int = ATTEMPTS) -> Entry:
        """Train one run, again if it raises."""
        begin = time.perf_counter()
        for _ in range(attempts):
            try:
                return self._entry(spec, train(), time.perf_counter() - begin)
            except (Exception, SystemExit) as error:
                said, trace = _said(error), traceback.format_exc()
        return replace(failed(spec, said, trace, ATTEMPTS), machine=self._machine, seconds=time.perf_counter() - begin)

    def _entry(self, spec: Spec, result: Result, seconds: float) -> Entry:
        """A result as it is stored."""
        state = "finished" if result.diverged is None else "diverged"
        known = Entry(spec.id, spec.identity, state, result.curves, result.diverged)
        return replace(known, machine=self._machine, seconds=seconds)

    @cached_property
    def _machine(self) -> dict[str, Any]:
        """What numbers may depend on besides the run."""
        device = torch.device(self.context.device)
        return {
            "torch": torch.__version__,
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "threads": torch.get_num_threads(),
        }


def failed(spec: Spec, message: str, trace: str | None, attempts: int) -> Entry:
    """A failure as it is stored."""
    shown = None if trace is None else trace[-LONGEST:]
    return Entry(spec.id, spec.identity, "failed", message=message, trace=shown, attempts=attempts)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
