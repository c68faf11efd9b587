"""Time of a tracked step as a multiple of a plain one, measured side by side.

    python benchmarks/overhead.py [--device cuda] [--steps 20] [--presets economy business full]

Plain and tracked steps alternate in short blocks, so that a busy machine slows both alike; medians are compared.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from nets import NETS
from torch import nn

import cockpit

BATCH, BLOCKS = 128, 5


def seconds(step: Callable[[], None], count: int, device: str) -> list[float]:
    found = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return found


def ratio(name: str, preset: str, device: str, steps: int) -> tuple[float, float]:
    """Return the median time of a plain step and of a tracked one."""
    torch.manual_seed(0)
    model, shape = NETS[name]()
    model.to(device)
    inputs, labels = torch.rand(BATCH, *shape, device=device), torch.randint(10, (BATCH,), device=device)
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=1e-3), nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss_fn(model(inputs), labels).backward()
        optimizer.step()

    seconds(step, 5, device)
    plain, tracked = [], []
    for _ in range(BLOCKS):
        plain += seconds(step, max(2, steps // BLOCKS), device)
        with cockpit.watch(model, optimizer, loss_fn, quantities=preset, every=1):
            seconds(step, 2, device)
            tracked += seconds(step, max(2, steps // BLOCKS), device)
    return median(plain), median(tracked)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--nets", nargs="+", default=list(NETS))
    parser.add_argument("--presets", nargs="+", default=["economy", "business", "full"])
    args = parser.parse_args()
    where = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"torch {torch.__version__}, {where}, batch {BATCH}, SGD, every step tracked")
    for name in args.nets:
        for preset in args.presets:
            plain, tracked = ratio(name, preset, args.device, args.steps)
            print(
                f"{name:7} {preset:9} {1e3 * plain:8.2f} ms {1e3 * tracked:9.2f} ms  x {tracked / plain:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
