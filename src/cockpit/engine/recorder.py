"""Records the backward passes of one tracked step."""

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import why
from cockpit.engine.autograd.batch import note, noted
from cockpit.engine.autograd.graph import Graph, Node
from cockpit.engine.backward_pass import BackwardPass
from cockpit.engine.double_backward import Vectors
from cockpit.engine.familiar import FamiliarPass, Met
from cockpit.engine.losses import LossCall
from cockpit.engine.microbatch import Microbatch
from cockpit.engine.needs import Need
from cockpit.engine.scene import Seen
from cockpit.engine.settings import Settings
from cockpit.layers.forms import scale


class Recorder:
    """Sees forward calls, loss calls and backward passes of one step."""

    def __init__(
        self, step: int, parameters: Mapping[str, nn.Parameter], needs: frozenset[Need], settings: Settings
    ) -> None:
        self.step, self.parameters, self.needs, self.settings = step, dict(parameters), needs, settings
        self.microbatches: list[Microbatch] = []
        self.gradient: Vectors = {}
        self.flaw: str | None = None
        self.loss_scale = 1.0
        self.half: torch.dtype | None = None
        self.root: Tensor | None = None
        self.seconds = 0.0
        self.retain = False
        self.in_update = False
        self.known_size: int | None = None  # the paper's ``info``
        self.known_losses: Tensor | None = None
        self.curvature_seconds = 0.0
        self.updated = False  # an optimizer has stepped: what comes now belongs to the next step
        self.prompt = True  # numbers may be looked at while the step lasts
        self.replayable = False  # one backward pass, and nothing but numbers is needed of it
        self._keys = f"cockpit.{id(self)}.model", f"cockpit.{id(self)}.loss"  # our notes on autograd's nodes
        self._pass: BackwardPass | FamiliarPass | None = None
        self._before: dict[str, Tensor] = {}
        self._marks: dict[str, tuple[int, int]] = {}
        self._versions: dict[str, int] = {}

    # ---- the forward pass

    def saw_model(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A forward call of the model."""
        settings = self.settings
        note(self._keys[0], args, kwargs, output, settings.batch_axis, settings.batch_size, settings.losses)

    def saw_loss(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A call of the loss."""
        if isinstance(output, Tensor) and output.grad_fn is not None:
            call = LossCall.of_module(module, args, output)
            node: Node = output.grad_fn
            node.metadata[self._keys[1]] = call

    def given(self, values: Tensor, mean: Tensor) -> None:
        """Individual losses handed over by the user, and their mean."""
        node: Node = mean.grad_fn
        if node is not None:
            node.metadata[self._keys[1]] = LossCall.of_values(values, mean)

    # ---- the backward pass

    def before(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> None:
        """A backward pass is about to run: look at its graph."""
        begin = time.perf_counter()
        self._pass = None
        try:
            self._pass = self._begin(roots, seeds)
        except Exception as error:  # a user's training never breaks because it is watched
            self.flaw = why(error)
        self.seconds += time.perf_counter() - begin

    def attach(self) -> bool:
        """Place hooks on the graph."""
        if self._pass is not None:
            if isinstance(self._pass, BackwardPass):
                self._pass.replayable = self.replayable and not self.microbatches
            self._pass.listen()
        return self.retain

    def alone(self) -> bool:
        """Whether autograd may run on this thread."""
        return self._pass is not None and self._pass.alone

    def detach(self) -> None:
        """Remove them."""
        if self._pass is not None:
            self._pass.release()

    def after(self) -> bool:
        """The gradients are complete: keep what the pass showed; True if it was one of ours."""
        finished, self._pass = self._pass, None
        if finished is None:
            return False
        begin = time.perf_counter()
        self.half, self.prompt = finished.half, self.prompt and not (finished.structure and finished.loss.is_cuda)
        self.curvature_seconds += finished.curvature_seconds
        self.flaw = self.flaw or finished.problem
        self._add(finished.microbatch())
        self._take_gradient()
        self.known_losses = None
        self.seconds += time.perf_counter() - begin
        return True

    def _begin(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> BackwardPass | FamiliarPass | None:
        graph = Graph([root.grad_fn for root in roots if root.grad_fn is not None])
        ours = any(id(parameter) in graph.leaves for parameter in self.parameters.values())
        if not ours and not graph.checkpointed():
            return None
        if not self._belongs():
            return None
        self.loss_scale, self.root = self.settings.scale.of(roots[0]), roots[0]
        familiar = self._familiar(graph, roots, seeds)
        if familiar is not None:
            return familiar
        seen = Seen(*self._notes(graph), self.known_size, self.known_losses)
        seed = (self.settings.seed * 1_000_003 + self.step) * 31 + len(self.microbatches)
        return BackwardPass(graph, roots, seeds, self.parameters, seen, self.needs, self.settings, seed)

    def _familiar(
        self, graph: Graph, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]
    ) -> FamiliarPass | None:
        met, programs = self._met(graph), self.settings.programs
        if met is None or not met.known.diagonals:
            return None if met is None else FamiliarPass(met, roots, seeds, programs)
        begin = time.perf_counter()
        diagonal = self.settings.recorded.again(met.known.blueprint.number, roots, seeds, met.nodes)
        if diagonal is None:
            return None
        return FamiliarPass(met, roots, seeds, programs, diagonal, time.perf_counter() - begin)

    def _met(self, graph: Graph) -> Met | None:
        """A graph of which everything is known, where nothing else is needed."""
        if not self.replayable or self.microbatches or self.known_size is not None or self.known_losses is not None:
            return None
        known = self.settings.familiar.find(graph, self.needs)
        if known is None or self.settings.programs.script(known.blueprint.number) is not known.script:
            return None
        self.settings.compiled_seen |= known.blueprint.compiled
        return known.met(graph, self.parameters, self._keys)

    def _notes(self, graph: Graph) -> tuple[list[tuple[Node, Any]], list[tuple[Node, Any]]]:
        """What was noted of the model's and the loss's calls: first where it was in a graph like this one."""
        keys, places = self._keys, self.settings.blueprints.noted(graph)
        if places is not None:
            nodes = list(graph.nodes)
            models, calls = (
                [(nodes[at], nodes[at].metadata.get(key)) for at in where]
                for key, where in zip(keys, places, strict=True)
            )
            if all(note is not None for _, note in (*models, *calls)):
                return models, calls
        return noted(keys[0], graph), noted(keys[1], graph)

    def _add(self, new: Microbatch) -> None:
        """Keep a backward pass: more samples, or a second pass over samples that were seen."""
        for known in self.microbatches:
            same = known.origin and {id(call) for call in known.origin} == {id(call) for call in new.origin}
            if same and known.samples == new.samples:
                known.thaw()
                if known.factor:  # the first pass has been measured: bring the second to the same scale
                    new.forms = {name: scale(form, known.factor) for name, form in new.forms.items()}
                known.join(new)
                return
        self.microbatches.append(new)

    def _belongs(self) -> bool:
        """Whether this backward pass adds to the gradient of the step."""
        if self.updated:
            return False
        versions = self._versions
        moved = bool(versions) and any(p._version != versions.get(n, p._version) for n, p in self.parameters.items())
        if moved and self.in_update:
            return False  # a closure evaluated elsewhere: the step is judged where it began
        if self.microbatches and not self._untouched():
            self._restart()
        elif moved and self.microbatches:
            self.flaw = "the parameters changed between the backward passes of one step"
        if not self.microbatches:
            present = [(name, p.grad) for name, p in self.parameters.items() if p.grad is not None]
            self._before = {name: grad.detach().clone() for name, grad in present}
            self._versions = {name: p._version for name, p in self.parameters.items()}
        return True

    def _untouched(self) -> bool:
        """Whether the gradients are as the last backward pass left them."""
        return all(
            p.grad is not None and (id(p.grad), p.grad._version) == self._marks[name]
            for name, p in self.parameters.items()
            if name in self._marks
        )

    def gradient_is_untouched(self) -> bool:
        """Whether :attr:`gradient` is still what the backward passes made it: the user may clip in place."""
        return bool(self._marks) and self._untouched()

    def _restart(self) -> None:
        """The user cleared the gradients: what came before does not count."""
        cleared = all(p.grad is None or not bool(p.grad.any()) for p in self.parameters.values())
        self.microbatches.clear()
        self.flaw = None if cleared else "the gradients were changed between the backward passes of one step"

    def _take_gradient(self) -> None:
        """Read g: what the backward passes of this step added to ``.grad``."""
        self._marks = marks = {}
        for name, parameter in self.parameters.items():
            grad = parameter.grad
            if grad is None:
                self.gradient[name] = torch.zeros_like(parameter)
                continue
            marks[name] = id(grad), grad._version
            if grad.requires_grad or grad.is_sparse:
                grad = grad.detach().to_dense()
            if name in self._before:
                grad = grad - self._before[name].to_dense()
            self.gradient[name] = grad if self.loss_scale == 1 else grad / self.loss_scale
