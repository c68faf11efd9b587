"""One backward pass of a tracked step, from before autograd runs it until its gradients are complete."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.core.guard import entry
from cockpit.engine.autograd import losses
from cockpit.engine.autograd.balance import imbalance
from cockpit.engine.autograd.eager import full_precision
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.autograd.pull import COMPILED
from cockpit.engine.autograd.samples import Samples, Seen, unnoticed
from cockpit.engine.autograd.walk import Contribution, Walk
from cockpit.engine.curvature import second_order as curvature
from cockpit.engine.curvature.second_order import Curvature
from cockpit.engine.needs import LINE, LOSSES, Diagonal, Need, per_sample
from cockpit.engine.statistics.together import AT_ONCE, SMALL
from cockpit.engine.step import shares
from cockpit.engine.step.reduction import Reduction, Vectors
from cockpit.engine.step.settings import Settings
from cockpit.layers.forms import AnyForm, Dense, scale, wide
from cockpit.layers.parts import pick, tensors

NOT_ASKED = "individual gradients were not asked for"
TOGETHER = "; the loss takes them together: an individual gradient is what goes through one sample's output"
NO_ROOM = "what the samples contributed did not fit into the memory of this step; at the next one fewer are taken"
NO_MEMORY = "the device ran out of memory; less is kept from the next step on"


@dataclass
class Pass:
    """What one backward pass showed; a step has one, or several under gradient accumulation."""

    samples: int
    loss: Tensor
    shares: Tensor | str = NOT_ASKED  # each sample's share of the loss, or why it is not known
    crowded: bool = False  # what samples contributed did not fit
    problem: str | None = None  # why there are no individual gradients although they were asked for
    where: str = ""  # how many samples there are and where, for people
    coupled: bool = False
    half: torch.dtype | None = None
    regularised: set[str] = field(default_factory=set)
    uncovered: dict[str, str] = field(default_factory=dict)
    curvature: Curvature = field(default_factory=Curvature)
    origin: tuple[object, ...] = ()  # the forward calls it goes back to
    chosen: Tensor | None = None  # samples whose individual gradients were taken; None: all
    kept: Tensor | None = None  # samples whose contributions are kept in ``forms``; None: all
    numbers: dict[str, dict[Need, Tensor]] = field(default_factory=dict)  # of each parameter, where B was known
    forms: dict[str, AnyForm] = field(default_factory=dict)  # kept until the step is over; with the loss scale
    terms: Vectors = field(default_factory=dict)  # of gradients, that no sample contributed
    off: Vectors = field(default_factory=dict)  # how far contributions are from the gradient
    elements: dict[Need, Vectors] = field(default_factory=dict)  # numbers of every element, while the step lasts
    gradient: Vectors = field(default_factory=dict)  # that arrived where a gradient lay already

    @property
    def seen(self) -> int:
        """Samples whose individual gradients were taken."""
        return self.samples if self.chosen is None else len(self.chosen)

    @property
    def held(self) -> int:
        """Samples whose contributions are kept."""
        return self.samples if self.kept is None else len(self.kept)


class Backward:
    """Finds the samples, computes curvature, walks while autograd runs, and yields a :class:`Pass`."""

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        parameters: Mapping[str, Tensor],
        seen: Seen,
        needs: frozenset[Need],
        settings: Settings,
        loss_scale: float,
    ) -> None:
        self.graph, self.seen, self.needs, self.settings, self.scale = graph, seen, needs, settings, loss_scale
        self.parameters = {name: p for name, p in parameters.items() if id(p) in graph.leaves}
        self._asked = per_sample(needs)
        self._walk: Walk | None = None
        self._handles: list[Any] = []
        self._reduction: Reduction | None = None  # where the step's samples are known while autograd runs
        self._guess: Reduction | None = None  # of what does not fit, where they are not
        self._small: dict[Any, list[tuple[str, Tensor, Tensor]]] = {}  # parameters that wait for others of their shape
        self._off: Vectors = {}  # of those
        self._vectors = 0  # bytes of the direction that is looked along
        self._lasting = True  # forms are kept until the step is over
        loss = backpropagated(roots, seeds)
        self.found = Pass(0, loss.clone(), half=graph.half)
        self.found.origin = tuple(forward.call for _, forward in seen.forwards)
        self.samples: Samples | None = None
        self._of_graph: Tensor | str = NOT_ASKED  # shares that the graph of the loss tells
        self._unknown = ""  # why it is not known where the samples are
        try:
            self._find(roots, seeds)
        except Exception as error:
            self._unknown = self.found.shares = settings.stays_compiled or why(error)
            self.found.problem = self._unknown if self._asked or LOSSES in needs else None

    def _find(self, roots: Sequence[Tensor], seeds: Sequence[Tensor | None]) -> None:
        if self._asked or LOSSES in self.needs or curvature.asked(self.needs):
            settings = self.settings
            with unnoticed(roots[0].grad_fn):
                self.samples = Samples(
                    self.graph,
                    self.seen,
                    self.parameters,
                    settings.structures,
                    settings.batch_axis,
                    settings.batch_size,
                    settings.buffers,
                    partial(losses.results, roots, seeds),
                )
                self.found.samples, self.found.where = self.samples.count, self.samples.described()
                if LOSSES in self.needs:
                    for _, call in self.seen.calls:
                        self.samples.of_loss(call)
                    self._of_graph = shares.read(self.samples, roots, seeds, self.parameters)
                if self._asked:
                    uses, found = self.samples.uses(), self.found
                    found.coupled, found.uncovered, found.regularised = uses.coupled, uses.uncovered, uses.regularised
                    self._walk = Walk(uses, self._ready, self.fault)

    def second_order(
        self, roots: Sequence[Tensor], seeds: Sequence[Tensor | None], key: int, accumulated: bool
    ) -> float:
        """Compute what is needed of the curvature; returns the seconds that it took."""
        begin = time.perf_counter()
        if curvature.asked(self.needs):
            samples = self.samples or self._unknown or curvature.UNKNOWN
            memory, needs = self.settings.curvature, self.needs
            given = self.graph, roots, seeds, self.parameters, samples, needs, memory, key, accumulated
            self.found.curvature = curvature.curvature_of(*given)
        return time.perf_counter() - begin

    def reduce_at_once(self, line: Mapping[str, Tensor], sure: bool) -> None:
        """The step has this pass only: numbers can be computed as soon as a gradient is there.

        Where that is not sure, contributions are kept, and only of what does not fit it is guessed.
        """
        known = self.found.curvature.diagonals
        diagonals = {
            need.name: mean_of(estimates, self.scale)
            for need, estimates in known.items()
            if isinstance(need, Diagonal) and isinstance(estimates, list)
        }
        reduction = Reduction(self.needs, self.settings.allowance, line, diagonals, paths=self.settings.paths)
        self._vectors = sum(vector.nbytes for vector in line.values() if vector.is_cuda)
        if sure:
            self._reduction, self._lasting = reduction, LINE in self.needs
        else:
            self._guess = reduction

    # ---- while autograd runs

    def listen(self, apart: Sequence[str]) -> None:
        """Place hooks on the graph; ``apart``: parameters whose ``.grad`` will not be what this pass gives."""
        if self._walk is not None:
            allowance, samples = self.settings.allowance, self.found.samples
            allowance.enter(next(iter(self.parameters.values())), self._vectors)
            self.found.chosen = self.found.kept = allowance.choose(samples, self._lasting)
            if self._reduction is not None and self._lasting and self.found.chosen is not None:
                self.found.chosen = allowance.choose(samples, False)  # numbers need not wait for the end of the step
        for name in apart:
            if name in self.parameters:
                leaf = self.graph.leaves[id(self.parameters[name])]
                self._handles.append(leaf.register_prehook(partial(self._arrived, name)))
        if self._walk is not None:
            self.settings.paths.clear()
            self._walk.listen()
        if LOSSES in self.needs:
            for node, call in self.seen.calls:
                self._handles.append(node.register_prehook(call.keep))

    @entry
    def _arrived(self, name: str, grads: tuple[Tensor | None, ...]) -> None:
        """A gradient is about to be added to one that lies there already, or to be changed where it will lie."""
        if grads[0] is not None:
            grad = grads[0].detach()
            grad = grad.clone() if self.parameters[name].grad is None else grad
            self.found.gradient[name] = grad.to_dense() if grad.is_sparse else grad

    def fault(self, error: Exception) -> None:
        """Give up the individual gradients of this pass."""
        self._let_go()
        self.found.problem = why(error)

    def _ready(self, name: str, parts: Contribution, arrived: Tensor) -> None:
        """The gradient of a parameter is there: take its numbers, and let go of what they were computed from."""
        found = self.found
        arrived = found.gradient.get(name, arrived)
        try:
            if parts.problem:
                raise Undefined(parts.problem)
            form, term = parts.form, parts.term
            if form is None:
                raise Undefined("nothing that samples contributed to it was seen")
            data = arrived if term is None else arrived - term
            if term is not None:
                found.terms[name] = term
            if self._reduction is not None and isinstance(form, Dense) and data.numel() <= SMALL:
                self._wait(name, form.value, data)
            else:
                found.off[name] = imbalance(form, data)
                if self._reduction is not None and found.problem is None:
                    self._take(name, form, data, self._reduction)
            if self._lasting and found.problem is None:
                self._keep(name, form, data)
        except torch.OutOfMemoryError:
            self._let_go()
            self.settings.allowance.halve(arrived)
            found.problem = NO_MEMORY
        except Exception as error:  # a user's training never breaks because it is watched
            reason = why(error)
            found.uncovered[name] = (self.settings.stays_compiled or reason) if reason == COMPILED else reason

    def _take(self, name: str, form: AnyForm, data: Tensor, reduction: Reduction) -> None:
        """Take the numbers of a parameter."""
        found = self.found
        scaled = scale(_some(form, found.chosen), found.samples / self.scale)
        mean = data.to(form.dtype) if self.scale == 1 else data.to(form.dtype) / self.scale
        found.numbers[name] = reduction.of(name, [scaled], self.parameters[name], mean, found.samples)

    def _wait(self, name: str, value: Tensor, data: Tensor) -> None:
        """Put a small parameter aside until there are more of its shape."""
        group = self._small.setdefault((value.shape, value.dtype, value.device), [])
        group.append((name, value, data))
        if len(group) * value.numel() >= AT_ONCE:
            self._take_together(group)

    def _take_together(self, group: list[tuple[str, Tensor, Tensor]]) -> None:
        """Take the numbers of small parameters of one shape."""
        found, reduction = self.found, self._reduction
        assert reduction is not None
        names, values, arrived = zip(*group, strict=True)
        group.clear()
        try:
            g, data = wide(torch.stack(values)), torch.stack(arrived)
            data = data.to(g.dtype)
            off = torch.linalg.vector_norm((g.sum(1) - data).reshape(len(names), -1), dim=1)
            self._off |= zip(names, off.unbind(0), strict=True)
            if found.problem is not None:
                return
            g = (g if found.chosen is None else g[:, found.chosen.to(g.device)]) * (found.samples / self.scale)
            parameters = [self.parameters[name] for name in names]
            rows = reduction.together(names, g, parameters, data / self.scale, found.samples)
            found.numbers |= zip(names, rows, strict=True)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            found.uncovered |= dict.fromkeys(names, why(error))

    def _keep(self, name: str, form: AnyForm, data: Tensor) -> None:
        """Keep what samples contributed until the step is over."""
        found, some = self.found, _some(form, self.found.kept)
        if self.settings.allowance.keep(tensors(some)):
            found.forms[name] = some
            return
        found.crowded = True
        if self._guess is not None:
            self._take(name, form, data, self._guess)
            return
        found.forms.clear()
        if self._reduction is None:
            found.problem = NO_ROOM

    def _let_go(self) -> None:
        """Nothing of this step is kept."""
        self._lasting = False
        self._small.clear()
        self.found.forms.clear()
        self.found.numbers.clear()
        self.found.terms.clear()

    def release(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        walk, self._walk = self._walk, None  # which holds this pass: without it, both die when they are let go of
        if walk is not None:
            walk.release()

    def finish(self) -> Pass:
        """The gradients are complete: return what was seen."""
        found = self.found
        for group in self._small.values():
            if group:
                with torch.no_grad(), full_precision(group[0][1].device.type):
                    self._take_together(group)
        if found.off:
            found.off = dict(zip(found.off, torch._foreach_norm(list(found.off.values())), strict=True))
        found.off |= self._off
        if LOSSES in self.needs and self.samples is not None:
            found.shares = shares.shares_of(self.samples, found.loss, self._of_graph)
            found.where += TOGETHER if isinstance(found.shares, str) and found.shares.startswith(losses.APART) else ""
        reduction = self._reduction or self._guess
        if reduction is not None:
            found.elements = reduction.kept
        allowance = self.settings.allowance
        allowance.leave(next(iter(self.parameters.values()), found.loss), found.held if self._lasting else 0)
        return found


def _some(form: AnyForm, chosen: Tensor | None) -> AnyForm:
    return form if chosen is None else pick(form, chosen.to(tensors(form)[0].device))


def mean_of(estimates: list[Vectors], loss_scale: float) -> Vectors:
    """Mean of several estimates, without the loss scale."""
    total = {name: reduce(torch.add, [vectors[name] for vectors in estimates]) for name in estimates[0]}
    factor = loss_scale * len(estimates)
    return total if factor == 1 else {name: vector / factor for name, vector in total.items()}


def backpropagated(roots: Sequence[Tensor], seeds: Sequence[Tensor | None]) -> Tensor:
    """The number whose gradient is taken; a view of the user's own tensor where it is that."""
    if len(roots) == 1 and seeds[0] is None and roots[0].numel() == 1:
        loss = roots[0].detach()
        return loss.reshape(()) if loss.dim() else loss
    total = torch.zeros((), dtype=torch.float64, device=roots[0].device)
    for root, seed in zip(roots, seeds, strict=True):
        total += (root.detach() * (1 if seed is None else seed)).sum()
    return total
