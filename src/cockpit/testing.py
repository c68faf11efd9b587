"""Contract suites: tests that every quantity, layer rule and problem must pass, in this package and in plug-ins.

Inherit from a suite in a pytest file and say what to test; the tests are inherited::

    class TestMyQuantity(QuantityContract):
        def make(self):
            return MyQuantity()
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.problems._base import Batch, Place, Problem, Variant
from cockpit.quantities._base import Quantity
from cockpit.tracking.attach import watch
from cockpit.tracking.watched import Watch


def small_training(
    quantities: list[Quantity], steps: int = 3, batch: int = 5, seed: int = 0, every: Any = 1
) -> tuple[Watch, nn.Module]:
    """Train a tiny net in double precision with these quantities; return the closed watch and the net."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).to("cpu", torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64, device="cpu") / 2)
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    with watch(model, optimizer, loss_fn, quantities=quantities, every=every) as pit:
        for _ in range(steps):
            inputs = torch.randn(batch, 4, generator=generator, dtype=torch.float64, device="cpu")
            labels = torch.randint(0, 2, (batch,), generator=generator, device="cpu")
            optimizer.zero_grad()
            loss_fn(model(inputs), labels).backward()
            optimizer.step()
    return pit, model


class QuantityContract:
    """Tests of a quantity: it measures without touching training, says why it is undefined, obeys its schedule."""

    def make(self, **options: Any) -> Quantity:
        """Return a new instance; ``options`` are ``track_schedule`` and ``verbose``."""
        raise NotImplementedError

    def test_values_have_the_shape_of_their_kind(self) -> None:
        """Scalars are floats, per-parameter values are dictionaries in the order of the parameters, and so on."""
        quantity = self.make()
        pit, model = small_training([quantity])
        records = pit.history.series(quantity.name)
        assert records, f"{quantity.name} left no record"
        assert any(record.value is not None for record in records), records[0].reason
        for record in records:
            assert (record.value is None) == (record.reason is not None), record
            if record.value is not None:
                _check_kind(quantity.kind, record.value, [name for name, _ in model.named_parameters()])

    def test_undefined_says_why(self) -> None:
        """A batch of one sample gives a value, or a reason why it is undefined; never an error."""
        quantity = self.make()
        pit, _ = small_training([quantity], batch=1)
        for record in pit.history.series(quantity.name):
            assert record.value is not None or record.reason

    def test_schedule_is_obeyed(self) -> None:
        """Only scheduled steps are recorded."""
        quantity = self.make(track_schedule=lambda step: step == 1)
        pit, _ = small_training([quantity], steps=4)
        assert [record.step for record in pit.history.series(quantity.name)] == [1]

    def test_training_is_untouched(self) -> None:
        """Weights are the same with and without tracking, bit for bit."""
        _, tracked = small_training([self.make()])
        _, plain = small_training([self.make()], every=lambda step: False)
        for ours, theirs in zip(tracked.parameters(), plain.parameters(), strict=True):
            assert torch.equal(ours, theirs)

    def test_is_documented(self) -> None:
        """The docstring says what is measured."""
        assert type(self.make()).__doc__


class ProblemContract:
    """Tests of a problem: it follows from its seeds, gives individual losses, and can be watched."""

    batch_size = 4
    folder = Path("data")  # of its files, if it has any

    def make(self) -> Problem:
        """Return the problem."""
        raise NotImplementedError

    def batch(self) -> Batch:
        """Return a small batch of its training data."""
        return self._drawn(1)

    def _drawn(self, generators: int) -> Batch:
        splits = self.make().data(Place(self.folder, download=False), Variant())
        seeded = [torch.Generator().manual_seed(seed) for seed in range(generators)]
        return next(iter(splits.train.epoch(self.batch_size, *seeded)))

    def test_a_model_follows_from_its_seed(self) -> None:
        """The same seed gives the same weights; the global random state stays as it was."""
        before = torch.get_rng_state()
        first, second = self.make().model(3), self.make().model(3)
        assert torch.equal(before, torch.get_rng_state())
        for a, b in zip(first.parameters(), second.parameters(), strict=True):
            assert torch.equal(a, b)

    def test_batches_follow_from_their_generator(self) -> None:
        """The same generator gives the same batch."""
        for a, b in zip(self.batch(), self.batch(), strict=True):
            assert torch.equal(a, b)

    def test_an_order_can_be_fixed(self) -> None:
        """Given a second generator, the order is drawn from it."""
        for a, b in zip(self._drawn(2), self._drawn(2), strict=True):
            assert torch.equal(a, b)

    def test_every_sample_has_a_loss(self) -> None:
        """Losses, and accuracies if defined, are a finite number for each sample."""
        problem, (inputs, targets) = self.make(), self.batch()
        outputs = self._model(problem)(inputs)
        judged = [problem.losses(outputs, targets)]
        if problem.accuracies is not None:
            judged.append(problem.accuracies(outputs, targets))
            assert bool(((judged[1] >= 0) & (judged[1] <= 1)).all())
        for values in judged:
            assert values.shape == (self.batch_size,)
            assert bool(values.isfinite().all())

    def test_it_can_be_watched(self) -> None:
        """Individual gradients are measured: NormTest is defined."""
        problem, (inputs, targets) = self.make(), self.batch()
        model = self._model(problem)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        with watch(model, optimizer, quantities=["Loss", "NormTest"], every=1, run=False) as pit:
            loss = pit.loss(problem.losses(model(inputs), targets)) + problem.regularisation(model)
            loss.backward()
            optimizer.step()
        assert pit.get_output()[0]["NormTest"] is not None, pit.history.reasons()

    def _model(self, problem: Problem) -> nn.Module:
        model = problem.model(0)
        if problem.begin is not None:
            problem.begin(model)
        return model


class LayerContract:
    """Tests of a layer rule: per-sample gradients equal those of autograd, one sample at a time."""

    samples = 3
    batch_axis = 0

    def module(self) -> nn.Module:
        """Return the module under test."""
        raise NotImplementedError

    def inputs(self, generator: torch.Generator) -> Tensor:
        """Return a batch of inputs for the module."""
        raise NotImplementedError

    def test_individual_gradients(self) -> None:
        """||g_n||^2, <g_n, g> and sum g_n^2 equal those of a backward pass per sample, in double precision."""
        generator = torch.Generator().manual_seed(1)
        module, inputs = self.module().double(), self.inputs(generator)
        inputs = inputs.double() if inputs.is_floating_point() else inputs
        seen = observe(module, inputs, self.samples, self.batch_axis)
        for name, expected in self.expected(module, inputs).items():
            flat = expected.reshape(self.samples, -1)
            torch.testing.assert_close(seen.sq_norms()[name], flat.square().sum(1), rtol=1e-8, atol=1e-12)
            mean = flat.mean(0)
            torch.testing.assert_close(seen.dots()[name], flat @ mean, rtol=1e-8, atol=1e-12)
            sum_sq = seen.elements("sum_sq")[name]
            torch.testing.assert_close(sum_sq.reshape(-1), flat.square().sum(0), rtol=1e-8, atol=1e-12)

    def expected(self, module: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
        """Return individual gradients from a backward pass per sample."""
        parameters = dict(module.named_parameters())
        rows: dict[str, list[Tensor]] = {name: [] for name in parameters}
        for n in range(self.samples):
            loss = reading(module(inputs.narrow(self.batch_axis, n, 1)))
            grads = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
            for name, grad in zip(parameters, grads, strict=True):
                rows[name].append(grad)
        return {name: torch.stack(parts) for name, parts in rows.items()}


def reading(output: Tensor) -> Tensor:
    """Return a scalar that depends on each element of the output in a different, curved way; a sum over samples."""
    weights = torch.linspace(0.5, 1.5, output.shape[-1], dtype=output.dtype, device=output.device)
    return (output * weights).sin().sum()


class _Probe(Quantity):
    """Passes the observation on."""

    kind = Kind.SCALAR

    def __init__(self, take: Callable[[Any], None]) -> None:
        super().__init__()
        self._take = take

    @property
    def needs(self) -> frozenset[Any]:
        return frozenset({"sq_norm", "dot_grad", "sum_sq"})

    def measure(self, step: Any) -> float:
        self._take(step)
        return 0.0


def observe(module: nn.Module, inputs: Tensor, samples: int, batch_axis: int = 0) -> Any:
    """Watch a backward pass of ``reading(module(inputs)) / samples``; return the observation."""
    seen: list[Any] = []
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    with watch(module, optimizer, quantities=[_Probe(seen.append)], every=1, batch_axis=batch_axis, batch_size=samples):
        (reading(module(inputs)) / samples).backward()
    assert seen, "no backward pass was seen"
    return seen[0]


def _check_kind(kind: Kind, value: Any, names: list[str]) -> None:
    if kind is Kind.SCALAR:
        assert isinstance(value, float), value
    elif kind is Kind.PER_PARAMETER:
        assert list(value) == names, list(value)
    elif kind is Kind.HISTOGRAM:
        assert isinstance(value, Histogram)
        assert set(value.parts) <= set(names)
        assert value.counts.dtype == "int64"
        assert all(len(axis) == size + 1 for axis, size in zip(value.edges, value.counts.shape, strict=True))
