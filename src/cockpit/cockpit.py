"""The API of the paper: ``Cockpit(model.parameters(), quantities=...)`` around each backward call."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from cockpit import context
from cockpit.core.errors import CockpitError
from cockpit.core.schedule import linear
from cockpit.engine import tap
from cockpit.engine.needs import LOSSES, Diagonal, per_sample
from cockpit.engine.settings import Settings
from cockpit.explain import explain
from cockpit.paper_log import write_json
from cockpit.quantities._base import Quantity
from cockpit.roster import learning_rates
from cockpit.tracker import Tracker


def extend(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Return the module unchanged: nothing needs extending, but the loop printed in the paper calls this."""
    if not isinstance(module, nn.Module):
        raise CockpitError(f"extend got {type(module).__name__}; give a torch.nn.Module")
    return module


class Cockpit:
    """Track quantities during backward passes, with the API of the paper (Algorithm C.1 of the dissertation)."""

    def __init__(self, params: Iterable[Any], quantities: Iterable[Quantity] | None = None) -> None:
        """Attach to parameters.

        Args:
            params: ``model.parameters()``, or ``model.named_parameters()`` for names in the output.
            quantities: Instances, such as those of ``configuration("full")``; :meth:`add` adds more.
        """
        named = [entry if isinstance(entry, tuple) else (str(k), entry) for k, entry in enumerate(params)]
        if not named:
            raise CockpitError("the model has no parameters; give those of a model that is trained")
        for name, parameter in named:
            if not isinstance(parameter, Tensor) or not parameter.requires_grad:
                raise CockpitError(f"parameter {name} has requires_grad=False; leave frozen parameters out")
        self.params: list[Tensor] = [parameter for _, parameter in named]
        self._named: dict[str, Any] = dict(named)
        self._optimizer: torch.optim.Optimizer | None = None
        self._logged: dict[int, dict[str, Any]] = {}
        self._tracker = Tracker(lambda: self._named, [], linear(1), Settings(), self._learning_rates, defer=True)
        self._start = {name: p.detach().clone() for name, p in self._named.items()}
        for quantity in quantities or ():
            self.add(quantity)

    @property
    def quantities(self) -> list[Quantity]:
        """The tracked quantities."""
        return self._tracker.quantities

    def add(self, quantity: Quantity) -> None:
        """Add a quantity to track."""
        if not isinstance(quantity, Quantity):
            raise CockpitError(f"{quantity!r} is not a quantity; give an instance of a Quantity subclass")
        self._tracker.quantities.append(quantity)
        self._tracker.start = self._start

    def create_graph(self, global_step: int) -> bool:
        """Return whether a quantity needs the graph after ``backward``; only quantities with ``_compute`` may."""
        return any(q.create_graph(global_step) for q in self.quantities if q.should_compute(global_step))

    def __call__(
        self, global_step: int, *exts: Any, info: Mapping[str, Any] | None = None, debug: bool = False
    ) -> "_Context":
        """Return the context to run ``loss.backward`` in.

        Args:
            global_step: Number of the step.
            *exts: BackPACK extensions; accepted and ignored.
            info: ``batch_size``, ``individual_losses``, ``loss`` and ``optimizer``, those that are known.
            debug: Accepted and ignored.
        """
        facts = dict(info or {})
        loss = facts.get("loss")
        if isinstance(loss, Tensor) and loss.numel() != 1:
            raise CockpitError(
                f"the loss has shape {tuple(loss.shape)}, not a scalar; reduce it (mean or sum) before backward, "
                'and give the unreduced values as info["individual_losses"]'
            )
        size = facts.get("batch_size")
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise CockpitError(f"batch_size is {size!r}; give the number of samples")
        if size is None and not isinstance(facts.get("individual_losses"), Tensor) and self._needs_samples(global_step):
            raise CockpitError(
                'the batch size cannot be known; give info={"batch_size": inputs.shape[0]} or "individual_losses"'
            )
        self._optimizer = facts.get("optimizer", self._optimizer)
        return _Context(self, global_step, facts)

    def _needs_samples(self, global_step: int) -> bool:
        due = [q for q in self.quantities if q.should_compute(global_step)]
        return any(
            per_sample(q.needs) or LOSSES in q.needs or any(isinstance(need, Diagonal) for need in q.needs) for q in due
        )

    def log(
        self,
        global_step: int,
        epoch_count: float | None = None,
        train_loss: float | None = None,
        valid_loss: float | None = None,
        test_loss: float | None = None,
        train_accuracy: float | None = None,
        valid_accuracy: float | None = None,
        test_accuracy: float | None = None,
        learning_rate: float | None = None,
    ) -> None:
        """Record metrics of an epoch at a step."""
        values = {key: value for key, value in locals().items() if key not in ("self", "global_step")}
        self._logged.setdefault(global_step, {}).update(values)

    def write(self, logpath: str | Path) -> None:
        """Write the output as JSON to ``<logpath>.json``."""
        write_json(self.get_output(), Path(f"{logpath}.json"))

    def get_output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {quantity: value}}``."""
        output = self._tracker.history.output()
        for step, values in self._logged.items():
            output.setdefault(step, {}).update(values)
        return output

    @property
    def output(self) -> dict[int, dict[str, Any]]:
        """The output so far; see :meth:`get_output`."""
        return self.get_output()

    def explain(self) -> str:
        """Return, as text, what is covered, what is not and why, and what tracking costs."""
        return explain(self._tracker)

    def _learning_rates(self) -> list[tuple[float, list[str]]]:
        known = [] if self._optimizer is None else [self._optimizer]
        return learning_rates(known, {id(p): name for name, p in self._named.items()})


class _Context:
    """The context around a backward call."""

    def __init__(self, cockpit: Cockpit, step: int, info: Mapping[str, Any]) -> None:
        self._cockpit, self._tracker, self._step, self._info = cockpit, cockpit._tracker, step, info

    def __enter__(self) -> None:
        tracker = self._tracker
        tracker.after_update()  # the optimizer has stepped since the last call
        context.remember(self._step, self._info)
        if tracker.open(self._step):
            assert tracker.recorder is not None
            tracker.recorder.known_size = self._info.get("batch_size")
            losses = self._info.get("individual_losses")
            tracker.recorder.known_losses = losses if isinstance(losses, Tensor) and losses.dim() else None
            tap.listen(tracker)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tap.leave(self._tracker)
        try:
            if kind is not None:  # the loop was left: its error passes through untouched
                self._tracker.abandon()
                return
            self._tracker.measure()
            self._tracker.before_update()
        finally:
            context.forget()
