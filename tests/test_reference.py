"""The reference itself: against recorded numbers, and against what must hold for any run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf, isnan

import numpy as np
import pytest
import torch
from tests.cases import CASES, GOLDENS, Case, golden_case, golden_values
from tests.reference import quantities as q
from tests.reference import reference_run, reference_steps
from tests.reference.gradients import gradient, trainable
from tests.reference.run import alone, data_loss, exact, exact_batches, snapshot, together
from torch import nn

# recorded name -> ours, where they differ
OURS = {
    "EarlyStopping": "EarlyStopping[epsilon=1e-05]",
    "EarlyStopping[eps=0]": "EarlyStopping",
    "MeanGSNR": "MeanGSNR[epsilon=1e-05]",
    "MeanGSNR[eps=0]": "MeanGSNR",
} | {
    f"{name}[{theirs}]": f"{name}{ours}"
    for name in ("HessTrace", "TICDiag", "TICTrace")
    for theirs, ours in (("diag_ggn_exact", ""), ("diag_h", "[hessian]"))
}
NOT_OURS = {"Alpha_fit_w", "TICDiag[diag_ggn_exact,eps=0]"}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
golden = pytest.mark.parametrize("name", GOLDENS)


@golden
@pytest.mark.parametrize("source", ["original", "brute"])
def test_recorded_numbers(name: str, source: str) -> None:
    recorded, _ = golden_values(name)
    values = reference_run(golden_case(name))
    compared = set()
    for t, row in recorded[source].items():
        for key, expected in row.items():
            if key in NOT_OURS or (isinstance(expected, float) and isnan(expected)):
                continue
            found = values[int(t)][OURS.get(key, key)]
            found = list(found.values()) if isinstance(found, dict) else found
            rtol = 1e-2 if (source, key) == ("original", "HessMaxEV") else 1e-8
            np.testing.assert_allclose(found, expected, rtol, 1e-13, err_msg=f"{key} at {t}")
            compared.add(key)
    assert len(compared) >= 18


@golden
def test_recorded_histograms_and_parameters(name: str) -> None:
    _, arrays = golden_values(name)
    case = golden_case(name)
    values, steps = reference_run(case), reference_steps(case)
    for t, step in enumerate(steps):
        for kind in ("GradHist1d", "GradHist2d"):
            found = values[t][kind]
            np.testing.assert_array_equal(found.counts, arrays[f"step{t}/{kind}/hist"])
            for axis, edges in enumerate(found.edges):
                expected = arrays[f"step{t}/{kind}/edges{axis}"]
                np.testing.assert_allclose(edges, expected, atol=1e-12)
        for key, theta in step.theta.items():
            np.testing.assert_allclose(theta, arrays[f"step{t}/param/{key}"], atol=1e-13)


@golden
def test_recorded_fit(name: str) -> None:
    recorded, _ = golden_values(name)
    steps = reference_steps(golden_case(name))
    for t, (a, b) in enumerate(pairwise(steps)):
        s = torch.cat([m.flatten() for m in a.moved.values()])
        slopes = [q.matrix(step.g_n) @ s / s.norm() for step in (a, b)]
        w = q.parabola(float(s.norm()), (a.losses, b.losses), (slopes[0], slopes[1]))
        np.testing.assert_allclose(w, recorded["brute"][str(t)]["Alpha_fit_w"], rtol=1e-8)


@every_case
def test_loop_runs_as_written_and_ends_where_the_replay_ends(case: Case) -> None:
    setup = case.build()
    named = trainable(setup.model)
    steps: list[int] = []
    case.style.run(*setup, lambda: steps.append(len(steps)))
    expected = reference_steps(case)
    assert len(steps) == len(expected) == 3
    last = expected[-1]
    for name, p in named.items():
        name = name.removeprefix("_orig_mod.")
        after = last.theta[name] + last.moved[name]
        tolerance = 1e-10 if case.dtype == torch.float64 else case.tolerance
        torch.testing.assert_close(p.detach().double(), after, rtol=tolerance, atol=tolerance, equal_nan=True)


@every_case
def test_values_of_every_case(case: Case) -> None:
    """The mean of g_n is the gradient (asserted inside), and the rest is consistent."""
    values = reference_run(case, second_order=False)
    for t, step in enumerate(reference_steps(case)):
        row = values[t]
        if not np.isfinite(row["Loss"]):
            assert all(row[name] is None for name in ("NormTest", "Alpha", "CABS", "GradHist1d"))
            continue
        if case.style.penalty is None:
            assert row["Loss"] == pytest.approx(float(step.losses.mean()), abs=1e-12)
        if row["NormTest"] is not None:
            squares = row["InnerTest"] ** 2 + row["OrthoTest"] ** 2
            assert row["NormTest"] ** 2 == pytest.approx(squares, rel=1e-9)
        hist = row["GradHist2d"]
        bins, limits = len(hist.edges[0]) - 1, tuple(hist.edges[0][[0, -1]])
        marginal = q.grad_hist_1d(step.g_n, bins, limits)
        np.testing.assert_array_equal(hist.counts.sum(1), marginal.counts)
        assert hist.counts.sum() == row["GradHist1d"].counts.sum() == q.matrix(step.g_n).numel()
        for name, value in row.items():
            last = name == "Alpha" and t == 2
            assert value is not None or last or name.split("[")[0] in case.expected_undefined


@every_case
def test_table_marks_what_rounding_decides(case: Case) -> None:
    noise = sum(q.noise_elements(step.g_n) for step in reference_steps(case))
    assert (noise > 0) == (case.loose.get("EarlyStopping") == inf)


@pytest.mark.parametrize("name", ["tanh_mlp", "cnn", "layer_used_twice", "resnet_group_norm", "accumulation_uneven"])
def test_copies_of_parameters_agree_with_single_samples(name: str) -> None:
    """Two roads to g_n, where both are open."""
    case = CASES[name]
    model = exact(case).build().model
    (*_, micro_batches) = case.style.plan(exact_batches(case))
    for one, other in zip(alone(case, micro_batches, model), together(case, micro_batches, model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-13)


def test_batch_norm_by_hand() -> None:
    """With batch statistics held, the layer's own gradients are sums over each sample alone."""
    case = CASES["mlp_batch_norm"]
    model = exact(case).build().model
    batch = exact_batches(case)[0]
    g_n, _ = together(case, [(1.0, batch)], model)
    hidden = model[0](*batch.args)
    normed = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + model[1].eps).sqrt()
    out = (normed * model[1].weight + model[1].bias).detach().requires_grad_()
    loss = nn.functional.cross_entropy(model[3](torch.tanh(out)), batch.target)
    (delta,) = torch.autograd.grad(loss, out)
    B = len(delta)
    torch.testing.assert_close(g_n["1.bias"], B * delta)
    torch.testing.assert_close(g_n["1.weight"], B * delta * normed.detach())


@pytest.mark.parametrize("name", ["relu_mlp", "cnn", "in_place_relu"])
def test_ggn_is_the_hessian_on_piecewise_linear_nets(name: str) -> None:
    for row in reference_run(CASES[name]).values():
        assert row["HessTrace"] == pytest.approx(row["HessTrace[hessian]"], rel=1e-9, abs=1e-12)
        assert row["TICDiag"] == pytest.approx(row["TICDiag[hessian]"], rel=1e-9)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.twin])
def test_twin_is_the_same_function(name: str) -> None:
    case = exact(CASES[name])
    model, twin = case.build().model, replace(case, model=case.twin).build().model
    twin.load_state_dict(snapshot(model))
    loss = partial(data_loss, case, case.style.plan(exact_batches(case))[0])
    torch.testing.assert_close(gradient(twin, loss), gradient(model, loss))


@pytest.mark.parametrize("name", ["resnet_batch_norm", "transformer", "gru", "accumulation"])
def test_second_order_by_differences(name: str) -> None:
    """Trace of the Hessian from central differences of the gradient."""
    case = CASES[name]
    expected = reference_run(case, 1)[0]["HessTrace[hessian]"]
    model = exact(case).build().model
    loss = partial(data_loss, case, case.style.plan(exact_batches(case))[0])
    for key, p in list(trainable(model).items())[-2:]:
        trace = 0.0
        for i in range(p.numel()):
            ends = []
            for h in (1e-4, -1e-4):
                with torch.no_grad():
                    p.view(-1)[i] += h
                ends.append(gradient(model, loss)[key].view(-1)[i])
                with torch.no_grad():
                    p.view(-1)[i] -= h
            trace += float(ends[0] - ends[1]) / 2e-4
        assert trace == pytest.approx(expected[key], rel=1e-5, abs=1e-8)
