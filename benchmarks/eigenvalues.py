"""How right the largest eigenvalue is along a training: every step against all eigenvalues of the dense Hessian.

    python benchmarks/eigenvalues.py [--seconds 75] [--seed 0] [--small 0.02]

A net of 185 parameters, batches of 16: curvature changes much from step to step, which is hard for a search that starts
near the eigenvectors of the step before. Exit code 1 if a value is off by more than its tolerance. ``--small`` tries
another rule when to stop: a residual of so many tolerances.
"""

import argparse
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, hessian

import cockpit
from cockpit.engine import lanczos

TOLERANCE = 1e-3


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 10), nn.Tanh(), nn.Linear(10, 5))


def dense(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The largest eigenvalue in double precision."""
    own = dict(model.named_parameters())
    sizes = [p.numel() for p in own.values()]
    blank = net().double()

    def loss(flat: Tensor) -> Tensor:
        parts = zip(own.items(), flat.split(sizes), strict=True)
        return F.cross_entropy(functional_call(blank, {name: v.view(p.shape) for (name, p), v in parts}, (x,)), y)

    flat = torch.cat([p.detach().double().reshape(-1) for p in own.values()])
    return float(torch.linalg.eigvalsh(hessian(loss)(flat))[-1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", type=float, default=lanczos.SMALL)
    given = parser.parse_args()
    lanczos.SMALL = given.small
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    inputs = torch.randn(2000, 12)
    targets = (torch.tanh(inputs @ torch.randn(12, 5)) + 0.5 * torch.randn(2000, 5)).argmax(1)
    model, loss_fn, expected = net(), nn.CrossEntropyLoss(), list[float]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    with cockpit.watch(model, optimizer, loss_fn, quantities=["HessMaxEV"], every=1, run=False) as pit:
        end = time.perf_counter() + given.seconds
        while time.perf_counter() < end:
            rows = torch.randint(2000, (16,))
            x, y = inputs[rows], targets[rows]
            expected.append(dense(model, x.double(), y))
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    records = pit.history.series("HessMaxEV")
    found = np.array([record.value for record in records], dtype=np.float64)
    errors = np.abs(found / np.array(expected) - 1)
    off, products = int((errors > TOLERANCE).sum()), np.mean([record.details["products"] for record in records])
    print(
        f"{len(found)} searches, {off} off by more than {TOLERANCE}; worst {errors.max():.1e}; {products:.1f} products"
    )
    return min(off, 1)


if __name__ == "__main__":
    sys.exit(main())
