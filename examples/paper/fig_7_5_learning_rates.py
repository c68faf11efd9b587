"""Figure 7.5: final test accuracy against the median of Alpha over the whole training, for many learning rates.

SGD without L2 term, by default on drawn digits, eight rates, 5 epochs. With --full the paper's problems: an MLP on
MNIST (P10) and Fashion-MNIST (P11), 3c3d on CIFAR-10 (P4) and SVHN (P12), ten rates, 100 epochs; hours, so use --runs.
"""

import json
import time
from multiprocessing import get_context
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from sheet import BLUE, GREEN, GREY, ORANGE, PINK, axis, chart, options, save, verdict

import cockpit
from cockpit.bench.evaluation import evaluate
from cockpit.problems import Variant, get
from cockpit.problems.data.fetch import default_place

PAPER = {"mnist_mlp": GREEN, "fmnist_mlp": BLUE, "cifar10_3c3d": ORANGE, "svhn_3c3d": PINK}
RATES = [1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1]
DIGITS = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1, 3]


def train(name: str, rate: float, seed: int, epochs: int, every: int, seconds: float = float("inf")) -> dict:
    """Train, for so many epochs or seconds; return the median of Alpha and the test accuracy."""
    torch.set_num_threads(1)
    device, loss, done = "cuda" if torch.cuda.is_available() else "cpu", torch.zeros(()), 0
    problem, draws = get(name), torch.Generator().manual_seed(seed)
    splits, model = problem.data(default_place(), Variant()), problem.model(seed).to(device)
    data, began, optimizer = splits.train.to(device), time.monotonic(), torch.optim.SGD(model.parameters(), lr=rate)
    with cockpit.watch(model, optimizer, quantities=["Alpha"], every=every, run=False) as pit:
        while done < epochs and time.monotonic() < began + seconds and loss.isfinite():
            for inputs, labels in data.epoch(problem.batch_size, draws):
                optimizer.zero_grad()
                loss = pit.loss(problem.losses(model(inputs), labels))
                loss.backward()
                optimizer.step()
            done += 1
    alphas = pit.source().scalar("Alpha").defined().values
    accuracy = evaluate(problem, model, splits.test.to(device), problem.batch_size)["accuracy"]
    found = {"problem": name, "rate": rate, "seed": seed, "epochs": done, "seconds": round(time.monotonic() - began)}
    return found | {"tracked": len(alphas), "alpha": float(np.median(alphas)), "accuracy": accuracy}


if __name__ == "__main__":
    args = options(__doc__, "fig_7_5.png", runs="file of finished runs, kept", only="problems of --full: a,b,c")
    names = (args.only or ",".join(PAPER)).split(",")
    asked = [(name, rate) for name in names for rate in RATES] if args.full else [("digits", rate) for rate in DIGITS]
    file, setting = Path(args.runs) if args.runs else None, (args.seed, 100, 10) if args.full else (args.seed, 5, 1)
    runs = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    known, missing = {(run["problem"], run["rate"]) for run in runs if run["seed"] == args.seed}, set()
    with get_context("spawn").Pool(2) as pool:
        for one in [pool.apply_async(train, (*job, *setting)) for job in asked if job not in known]:
            try:
                runs.append(one.get())
            except cockpit.CockpitError as error:
                missing.add(str(error))  # a data set: what to fetch, and where to put it
                continue
            print("{problem}, rate {rate:g}: median Alpha {alpha:+.2f}, accuracy {accuracy:.3f}".format(**runs[-1]))
            if file:
                file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    print(*missing, sep="\n", end="\n" if missing else "")

    runs = [run for run in runs if run["seed"] == args.seed and (run["problem"], run["rate"]) in asked]
    runs.sort(key=itemgetter("accuracy"))
    tones = {name: PAPER.get(name, BLUE) for name, _ in asked}
    best = {run["problem"]: run for run in runs}  # the last one stands
    good = [run for run in runs if run["accuracy"] >= best[run["problem"]]["accuracy"] - 0.05]
    fast = list({run["problem"]: run for run in sorted(runs, key=itemgetter("rate"))}.values())
    hue = {"color": {"field": "problem", "scale": {"domain": [*tones], "range": [*tones.values()]}, "legend": None}}
    size = {"size": {**axis("rate", None, type="log", range=[15, 250]), "legend": None}}
    x, y = axis("alpha", "median Alpha", domain=[-0.65, 0.65]), axis("accuracy", "test accuracy", domain=[0, 1.03])
    layers = [{"data": {"name": "floor"}, "mark": {"type": "rule", "color": GREY}, "encoding": {"x": x}}]
    layers.append({"data": {"name": "best"}, "mark": "rule", "encoding": {"x": x} | hue})
    layers.append({"data": {"name": "runs"}, "mark": "point", "encoding": {"x": x, "y": y} | size | hue})
    rows = {"runs": runs, "best": [*best.values()], "floor": [{"alpha": 0}]}
    panel = chart("Accuracy and Alpha", rows, layers, "larger: a higher learning rate · coloured line: the best run")
    save(args.o, [panel], "Good runs overshoot the valley floor", list(tones.items()), 1, (640, 200))
    lost = [run for run in fast if run["accuracy"] <= 0.2]
    least, beyond = (min((run["alpha"] for run in some), default=-1) for some in (good, lost))
    claims = {
        f"all {len(good)} good runs have a median Alpha of 0 or more, the least {least:+.3f}": least >= 0,
        f"the largest rate ends near chance, at most 0.2, on {len(lost)} problems": bool(lost),
        f"though its median Alpha is above 0 on these too, at least {beyond:+.2f}": beyond > 0,
    }
    verdict(claims, {f"it ends near chance on all problems, {len(lost)} of {len(fast)}": len(lost) == len(fast)})
