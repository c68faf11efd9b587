"""Records the backward passes of one tracked step."""

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.engine import capture, lanczos
from cockpit.engine.batch import Forward, batch_size_of
from cockpit.engine.capture import Capture
from cockpit.engine.curvature import GaussNewton, HessianProduct, Vectors, hessian_diagonal, hutchinson
from cockpit.engine.graph import Graph
from cockpit.engine.losses import LossCall, in_graph, share
from cockpit.engine.needs import LOSSES, MAX_EIGENVALUE, Diagonal, Need, per_sample
from cockpit.engine.observation import Microbatch
from cockpit.engine.placement import Finder, Source
from cockpit.engine.scaler import LossScale
from cockpit.engine.tap import Proceed
from cockpit.layers.layout import Layout


@dataclass
class Settings:
    """What stays the same from step to step, and what is remembered between steps."""

    batch_axis: int = 0
    batch_size: int | Callable[..., int] | None = None
    losses: Callable[..., Tensor] | None = None
    finder: Finder = field(default_factory=Finder)
    scale: LossScale = field(default_factory=LossScale)
    eigenvector: Tensor | None = None
    seed: int = 0
    compiled_seen: bool = False


class Recorder:
    """Sees forward calls, loss calls and backward passes of one step."""

    def __init__(self, step: int, parameters: Mapping[str, nn.Parameter], needs: frozenset[Need], settings: Settings) -> None:
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
        self._forwards: deque[Forward] = deque(maxlen=4)
        self._calls: deque[LossCall] = deque(maxlen=8)
        self._before: dict[str, Tensor] = {}
        self._marks: dict[str, tuple[int, int]] = {}
        self._versions: dict[str, int] = {}

    # ---- the forward pass

    def saw_model(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A forward call of the model."""
        self._forwards.append(Forward.of(args, kwargs, output))

    def saw_loss(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A call of the loss."""
        if isinstance(output, Tensor) and output.grad_fn is not None:
            self._calls.append(LossCall(output, module=module, args=args))

    def given(self, values: Tensor, mean: Tensor) -> None:
        """Individual losses handed over by the user, and their mean."""
        if mean.grad_fn is not None:
            self._calls.append(LossCall(mean, values=values))

    # ---- the backward pass

    def backward(
        self, proceed: Proceed, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...], done: Callable[[], None]
    ) -> None:
        """Run one backward pass and keep what it shows; ``done`` is called when the gradients are complete."""
        begin = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the user sees each warning once, from the backward pass itself
                started = self._begin(roots, seeds)
        except Exception as error:  # a user's training never breaks because it is watched
            self.flaw, started = _why(error), None
        self.seconds += time.perf_counter() - begin
        try:
            proceed(self.retain)
        finally:
            if started is not None:
                started.release()
        if started is not None:
            begin = time.perf_counter()
            started.finish()
            self.seconds += time.perf_counter() - begin
            done()

    def _begin(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> "_Pass | None":
        graph = Graph([root.grad_fn for root in roots if root.grad_fn is not None])
        if not any(id(parameter) in graph.leaves for parameter in self.parameters.values()):
            return None
        if not self._belongs():
            return None
        return _Pass(self, graph, roots, seeds)

    def _belongs(self) -> bool:
        """Whether this backward pass adds to the gradient of the step."""
        moved = any(p._version != self._versions.get(name, p._version) for name, p in self.parameters.items())
        if moved and self.in_update:
            return False  # a closure evaluated elsewhere: the step is judged where it began
        if self.microbatches and not self._untouched():
            self._restart()
        elif moved and self.microbatches:
            self.flaw = "the parameters changed between the backward passes of one step"
        if not self.microbatches:
            grads = {name: p.grad for name, p in self.parameters.items()}
            self._before = {name: grad.detach().clone() for name, grad in grads.items() if grad is not None}
            self._versions = {name: p._version for name, p in self.parameters.items()}
        return True

    def _untouched(self) -> bool:
        """Whether the gradients are as the last backward pass left them."""
        return all(
            p.grad is not None and (id(p.grad), p.grad._version) == self._marks[name]
            for name, p in self.parameters.items()
            if name in self._marks
        )

    def _restart(self) -> None:
        """The user cleared the gradients: what came before does not count."""
        cleared = all(p.grad is None or not bool(p.grad.any()) for p in self.parameters.values())
        self.microbatches.clear()
        self.flaw = None if cleared else "the gradients were changed between the backward passes of one step"

    def take_gradient(self) -> None:
        """Read g: what the backward passes of this step added to ``.grad``."""
        self._marks = {
            name: (id(p.grad), p.grad._version) for name, p in self.parameters.items() if p.grad is not None
        }
        for name, parameter in self.parameters.items():
            grad = parameter.grad
            if grad is None:
                self.gradient[name] = torch.zeros_like(parameter)
                continue
            grad = grad.detach().to_dense() if grad.is_sparse else grad.detach()
            if name in self._before:
                grad = grad - self._before[name].to_dense()
            self.gradient[name] = grad if self.loss_scale == 1 else grad / self.loss_scale

    def forwards_in(self, graph: Graph) -> list[Forward]:
        """Forward calls whose output leads to the backpropagated number."""
        return [forward for forward in self._forwards if any(t.grad_fn in graph for t in forward.tensors)]

    def calls_in(self, graph: Graph) -> list[LossCall]:
        """Loss calls that lead to the backpropagated number."""
        return in_graph(list(self._calls), graph)

    def forget(self) -> None:
        """Let go of tensors of the forward pass."""
        self._forwards.clear()
        self._calls.clear()
        self.known_losses = None


class _Pass:
    """One backward pass while it runs."""

    def __init__(
        self, recorder: Recorder, graph: Graph, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]
    ) -> None:
        self.recorder, self.graph, self.roots, self.seeds = recorder, graph, roots, seeds
        self.settings = recorder.settings
        self.trainable = {n: p for n, p in recorder.parameters.items() if id(p) in graph.leaves}
        self.capture: Capture | None = None
        self.samples = 0
        self.problem: str | None = None
        self.diagonals: dict[Diagonal, list[Vectors] | str] = {}
        self.eigenpair: lanczos.Eigenpair | str | None = None
        self.sources: list[Source] = []
        self.prediction: Source | None = None
        self.handles: list[Any] = []
        self.placed_calls: list[tuple[LossCall, Layout | None]] = []
        self.loss = sum(
            ((root.detach() * (1 if seed is None else seed)).sum().double() for root, seed in zip(roots, seeds, strict=True)),
            torch.zeros((), dtype=torch.float64, device=roots[0].device),
        )
        recorder.loss_scale = self.settings.scale.of(roots[0])
        recorder.half = _half(graph)
        recorder.root = roots[0]
        self.calls = recorder.calls_in(graph)
        self.forwards = recorder.forwards_in(graph)
        try:
            self._place()
        except Exception as reason:
            self.problem = _why(reason)
        self._differentiate_twice()
        self._listen()

    def _place(self) -> None:
        recorder, settings = self.recorder, self.settings
        if not (per_sample(recorder.needs) or LOSSES in recorder.needs or self._diagonals()):
            return
        values = recorder.known_losses
        self.samples = recorder.known_size or batch_size_of(self.forwards, self.calls, values, settings)
        self.sources = self._sources()
        if LOSSES in recorder.needs:
            self.placed_calls = [(call, self._placed(call.prediction)) for call in self.calls]
        outputs = self._outputs() if self._diagonals() else []
        self.capture = capture.prepare(
            self.graph, self.trainable, self.samples, settings.finder, self.sources, outputs
        )
        if any(node.name().startswith("CompiledFunction") for node in self.graph.nodes):
            settings.compiled_seen = True

    def _sources(self) -> list[Source]:
        """Tensors whose samples are known, the surest kind first: losses given, outputs of the model, what a loss saw."""
        known, fallback = self.recorder.known_losses, []
        kinds = [
            [] if known is None else [known],
            [t for forward in self.forwards for t in forward.predictions if t.grad_fn in self.graph],
            [call.values for call in self.calls if call.values is not None],
            [call.prediction for call in self.calls if call.prediction is not None],
        ]
        for tensors in kinds:
            described = [capture.source_of(t, self.samples, self.settings.batch_axis) for t in capture.topmost(tensors)]
            found = [source for source in described if source is not None]
            if found and all(source.layout.axis_of(source.shape) >= 0 for source in found):
                return found
            fallback = fallback or found[:1]
        return fallback

    def _outputs(self) -> list[Source]:
        """The network's outputs, where the loss begins: what the model returned, what the loss module was given, or what
        stands below a known loss in the graph.
        """
        axis = self.settings.batch_axis
        returned = [t for forward in self.forwards for t in forward.predictions if t.grad_fn in self.graph]
        found = [capture.source_of(tensor, self.samples, axis) for tensor in capture.topmost(returned)]
        if found and None not in found:
            return [source for source in found if source is not None]
        given = capture.topmost([call.prediction for call in self.calls if call.prediction is not None])
        layouts = [self._placed(tensor) for tensor in given]
        if given and None not in layouts:
            described = [capture.described(tensor.grad_fn, tensor.output_nr) for tensor in given]
            placed = zip(described, layouts, strict=True)
            return [replace(source, layout=layout) for source, layout in placed if layout is not None]
        where = None if returned else capture.loss_input(self.graph)
        layout = None if where is None else self.settings.finder.place(self.graph, *where, self.samples, self.sources)
        return [] if where is None or layout is None else [replace(capture.described(*where), layout=layout)]

    def _diagonals(self) -> list[Diagonal]:
        return [need for need in self.recorder.needs if isinstance(need, Diagonal)]

    # ---- second order, before autograd frees the graph

    def _differentiate_twice(self) -> None:
        diagonals, wants_eigenvalue = self._diagonals(), MAX_EIGENVALUE in self.recorder.needs
        if not diagonals and not wants_eigenvalue:
            return
        product: HessianProduct | str | None = None
        newton: GaussNewton | str | None = None
        for need in diagonals:
            try:
                if need.kind in ("ggn", "ggn_mc"):
                    newton = self._gauss_newton() if newton is None else newton
                    self.diagonals[need] = self._ggn(need, newton)
                else:
                    product = self._product() if product is None else product
                    self.diagonals[need] = self._hessian(need, product)
            except Exception as reason:
                self.diagonals[need] = _why(reason)
        if wants_eigenvalue:
            try:
                product = self._product() if product is None else product
                self.eigenpair = self._largest(product)
            except Exception as reason:
                self.eigenpair = _why(reason)

    def _product(self) -> HessianProduct:
        return HessianProduct(self.roots, self.seeds, self.trainable)

    def _gauss_newton(self) -> GaussNewton:
        if self.capture is None:
            raise Undefined(self.problem or "the batch is not known")
        captured = self.capture
        if not captured.outputs:
            raise Undefined("the network's output is not known: call the model itself, or pass the loss as a module")
        return GaussNewton(self.roots, self.seeds, captured.outputs, captured.paths, captured.placed, self.trainable)

    def _ggn(self, need: Diagonal, newton: GaussNewton) -> list[Vectors]:
        if need.kind == "ggn":
            return [newton.diagonal()]
        return newton.sampled(need.samples, self._generator(1))

    def _hessian(self, need: Diagonal, product: HessianProduct) -> list[Vectors]:
        if need.kind == "hessian":
            return [hessian_diagonal(product)]
        return hutchinson(product, need.samples, self._generator(2))

    def _generator(self, purpose: int) -> torch.Generator:
        """A source of randomness of our own: the global one is the user's."""
        recorder = self.recorder
        device = next(iter(self.trainable.values())).device
        place = device if device.type in ("cpu", "cuda") else torch.device("cpu")
        mixed = (self.settings.seed * 1_000_003 + recorder.step) * 31 + len(recorder.microbatches)
        return torch.Generator(place).manual_seed((mixed * 7 + purpose) % 2**63)

    def _largest(self, product: HessianProduct) -> lanczos.Eigenpair:
        generator = self._generator(3)
        like = next(iter(product.parameters.values()))
        sizes = [p.numel() for p in product.parameters.values()]
        noise = torch.randn(sum(sizes), generator=generator, dtype=like.dtype, device=generator.device).to(like.device)
        start, warm = noise / noise.norm(), self.settings.eigenvector
        if warm is not None and warm.numel() == start.numel() and warm.device == start.device:
            start = warm.to(start.dtype) + 0.1 * start

        def apply(vector: Tensor) -> Tensor:
            parts = vector.split(sizes)
            named = zip(product.parameters.items(), parts, strict=True)
            image = product({name: part.view_as(p) for (name, p), part in named})
            return torch.cat([part.reshape(-1) for part in image.values()])

        pair = lanczos.largest(apply, start, generator, asymmetry=0.5 if self.recorder.half else 1e-2)
        if pair.value != pair.value:
            raise Undefined("the Hessian is not finite")
        self.settings.eigenvector = pair.vector
        return pair

    # ---- while autograd runs

    def _listen(self) -> None:
        if self.capture is not None and per_sample(self.recorder.needs):
            self.capture.watch()
        for call in self.calls:
            call.arrived.clear()
            self.handles.append(call.node.register_prehook(_keeper(call)))

    def release(self) -> None:
        """Remove all hooks."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.capture is not None:
            self.capture.release()

    def finish(self) -> None:
        """The gradients are complete: keep what was seen."""
        recorder, captured = self.recorder, self.capture
        if self.problem:
            recorder.flaw = recorder.flaw or self.problem
        with torch.no_grad():
            shares = self._shares()
        recorder.microbatches.append(
            Microbatch(
                samples=self.samples,
                loss=self.loss,
                forms=captured.combined() if captured is not None else {},
                uncovered=captured.uncovered if captured is not None else {},
                shares=shares,
                coupled=captured.placed.coupled if captured is not None else False,
                diagonals=self.diagonals,
                eigenpair=self.eigenpair,
            )
        )
        recorder.take_gradient()
        recorder.forget()

    def _shares(self) -> Tensor | str:
        recorder = self.recorder
        if LOSSES not in recorder.needs:
            return "individual losses were not asked for"
        if self.problem:
            return self.problem
        try:
            if recorder.known_losses is not None:
                return share(recorder.known_losses, float(self.loss), self.samples)
            if not self.calls:
                return self._from_model()
            axis = self.settings.batch_axis
            parts = [call.contributions(self.samples, layout, axis) for call, layout in self.placed_calls]
            return torch.stack(parts).sum(0)
        except Exception as reason:
            return _why(reason)

    def _from_model(self) -> Tensor | str:
        """Individual losses of a model that returns its own loss: a callable, or an entry ``losses`` of its output."""
        for forward in self.forwards:
            values = forward.individual_losses(self.settings.losses)
            if values is not None:
                return share(values, float(self.loss), self.samples)
        return (
            "no individual losses were seen; pass the loss as a module, use pit.loss(individual_losses), "
            "or for a model that returns its own loss watch(..., losses=...)"
        )

    def _placed(self, prediction: Tensor | None) -> Layout | None:
        """Where the samples are in what the loss was given; found while the graph is alive."""
        if prediction is None or prediction.grad_fn not in self.graph:
            return None
        for source in self.sources:
            if source.node is prediction.grad_fn:
                return source.layout
        if self.sources:
            return self.settings.finder.place_above(prediction, self.samples, self.sources)
        known = capture.source_of(prediction, self.samples, self.settings.batch_axis)
        return known.layout if known is not None else None


def _why(error: Exception) -> str:
    """The reason as it stands, or what went wrong."""
    return str(error) if isinstance(error, Undefined) else f"{type(error).__name__}: {error}"


def _keeper(call: LossCall) -> Callable[[Sequence[Tensor]], None]:
    def keep(grads: Sequence[Tensor]) -> None:
        grad = grads[call.output.output_nr]
        if grad is not None:
            call.arrived.append(grad.detach())

    return keep


def _half(graph: Graph) -> torch.dtype | None:
    """Half precision anywhere in the graph."""
    for node in graph.nodes:
        for meta in node._input_metadata:
            if meta.dtype in (torch.float16, torch.bfloat16):
                return meta.dtype  # type: ignore[no-any-return]
    return None
