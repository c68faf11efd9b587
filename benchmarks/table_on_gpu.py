"""Run the whole table of test cases on a CUDA device and compare with the float64 CPU reference.

    PYTHONPATH=src:. python benchmarks/table_on_gpu.py [NAME_PART] [--single] [--share 1/6]

``--single``: in single precision, which the kernels are for. ``--share``: every so many cases, for several processes
side by side. ``--device cpu`` runs the same loop without a GPU. Exit code 1 if any value is wrong.
"""

import argparse
import sys
import time
from typing import Any

import torch
from tests.cases import CASES, Batch, Case
from tests.reference import reference_run
from tests.test_table import ROUNDING, allowed, in_single
from tests.watched import all_quantities, mismatch
from torch import Tensor, nn

import cockpit
from cockpit.core.errors import CockpitError


def moved(value: Any, device: str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(entry, device) for key, entry in value.items()}
    if isinstance(value, Batch):
        return Batch(*(moved(entry, device) for entry in value))
    return type(value)(moved(entry, device) for entry in value) if isinstance(value, list | tuple) else value


def wrong_values(case: Case, device: str, exact: Case, rounding: float) -> tuple[int, list[str]]:
    model, optimizer, loss_fn, batches = case.build()
    model.to(device)
    if isinstance(loss_fn, nn.Module):
        loss_fn.to(device)
    given = loss_fn if case.gives_loss else None
    pit = cockpit.watch(model, optimizer, given, quantities=all_quantities(), every=1, batch_axis=case.batch_axis)
    with pit:
        case.style.run(model, optimizer, loss_fn, moved(batches, device), lambda: None)
    found = {(record.step, record.name): record for record in pit.history}
    wrong, right = [], 0
    for step, values in reference_run(exact).items():
        for name, expected in values.items():
            record = found.get((step, name))
            if record is None:
                wrong.append(f"{name} at {step} is missing")
            elif record.value is None:
                if expected is not None and not allowed(case, name, record.reason or ""):
                    wrong.append(f"{name} at {step} is undefined: {record.reason}")
            elif expected is None or (why := mismatch(case, name, record.value, expected, rounding)):
                wrong.append(f"{name} at {step}: {why if expected is not None else record.value}")
            else:
                right += 1
    return right, wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--single", action="store_true", help="in single precision")
    parser.add_argument("--share", default="1/1", help="which of how many")
    args = parser.parse_args()
    which, of = map(int, args.share.split("/"))
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if args.device == 'cuda' else 'cpu'}")
    torch.backends.cudnn.allow_tf32 = False  # convolutions would round their inputs to ten bits
    torch.set_num_threads(1)  # the reference is small, and several processes share the processor
    bad = total = 0
    for name, case in list(CASES.items())[which - 1 :: of]:
        if args.part not in name or (args.single and case.dtype is not torch.float64):
            continue
        begin = time.perf_counter()
        try:
            tried, rounding = (in_single(case), ROUNDING) if args.single else (case, 0.0)
            right, wrong = wrong_values(tried, args.device, case, rounding)
        except CockpitError as error:
            right, wrong = 0, [] if case.may_refuse else [str(error)]
        except Exception as error:
            right, wrong = 0, [f"{type(error).__name__}: {error}"]
        total += right
        bad += bool(wrong)
        state = "ok " if not wrong else "BAD"
        print(
            f"{state} {name}: {right} values right, {time.perf_counter() - begin:.1f} s",
            *wrong[:4],
            sep="\n    ",
            flush=True,
        )
    print(f"{total} values right, {bad} cases with wrong values")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
