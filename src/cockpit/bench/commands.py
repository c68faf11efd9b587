"""``cockpit bench``: train problems, list them, show results. Heavy modules are loaded on use."""

from pathlib import Path
from typing import Any

import click

from cockpit.bench.catalogue import list_optimizers
from cockpit.bench.reporting import COMMANDS
from cockpit.bench.sweep.commands import COMMANDS as SWEEPS

FIRST_SEED = 42


@click.group()
def bench() -> None:
    """Compare optimizers on standard problems."""


@bench.command(
    epilog="PROBLEM: a name of `cockpit bench list`, a group (small, large, modern, all), or package.module:problem."
)
@click.argument("problem")
@click.option("--optimizer", "-o", default="SGD", show_default=True, help="A name, or package.module:Class.")
@click.option("--lr", type=float, help="Learning rate; default: the optimizer's.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a hyperparameter; repeatable.")
@click.option("--seeds", type=click.IntRange(min=1), help=f"Number of seeds: {FIRST_SEED}, {FIRST_SEED + 1}, ...")
@click.option("--seed", type=click.IntRange(min=0), help=f"A single seed.  [default: {FIRST_SEED}]")
@click.option("--epochs", type=click.IntRange(min=0), help="Number of epochs; default: the problem's.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples in a batch; default: the problem's.")
@click.option("--schedule", default="constant", show_default=True, help="Learning rate: cosine, ..., or 0.1@80,120.")
@click.option("--l2", type=click.FloatRange(min=0), help="Factor of the L2 term; default: the problem's.")
@click.option("--watch", type=click.Choice(["economy", "business", "full"]), help="Measure a preset of quantities.")
@click.option("--every", type=click.IntRange(min=1), help="With --watch: interval in steps; default: by a budget.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder; default: $COCKPIT_RUNS/bench or runs/bench.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the data; default: $COCKPIT_DATA.")
@click.option("--no-download", is_flag=True, help="Never download data.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; default: a GPU if there is one.")
@click.option("--amp", type=click.Choice(["bf16", "fp16"]), help="Mixed precision.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True)
@click.option("--compile", is_flag=True, help="Compile the model.")
@click.option(
    "--order",
    type=click.Choice(["fresh", "fixed", "study"]),
    default="fresh",
    show_default=True,
    help="Order of the batches: new in each epoch, the same in each, or that of the DeepOBS study.",
)
@click.option("--no-validation", is_flag=True, help="Train on all training data; hold nothing out.")
@click.option("--hessian", type=click.IntRange(min=0), default=0, help="quadratic_deep: number of the matrix.")
@click.option("--label-leak", is_flag=True, help="cifar100: the first pixel holds the label, as in DeepOBS.")
@click.option("--not-held-out", is_flag=True, help="CIFAR-10, SVHN: redraw the validation data and train on them.")
@click.option(
    "--shuffled-eval", "--augmented-eval", is_flag=True, help="Judge the training loss on the seed's shuffled samples."
)
@click.option("--cut", is_flag=True, help="SVHN: train on the first 64,000 images only.")
@click.option("--whole-eval", is_flag=True, help="tolstoi_char_rnn: judge the training loss on the whole text.")
@click.option("--log-interval", type=click.IntRange(min=1), default=10, show_default=True, help="Steps between logs.")
@click.option("--again", is_flag=True, help="Start over, even if a run is complete.")
def run(problem: str, seed: int | None, seeds: int | None, **options: Any) -> None:
    """Train PROBLEM with an optimizer. A stopped run is continued, a complete one is kept."""
    if seed is not None and seeds is not None:
        raise click.UsageError("give --seeds (how many) or --seed (which one), not both")
    if options["every"] is not None and options["watch"] is None:
        raise click.UsageError("--every says how often to measure; --watch must say what")
    from cockpit.bench.working import work

    first = FIRST_SEED if seed is None else seed
    try:
        work(problem, range(first, first + (seeds or 1)), **options)
    except KeyboardInterrupt:
        click.echo("Stopped. Run the same command to continue.", err=True)
        click.get_current_context().exit(130)


@bench.command("list")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the data; default: $COCKPIT_DATA.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_problems(data_dir: Path | None, as_json: bool) -> None:
    """List the problems, and whether their data are here."""
    from cockpit.bench.listing import show

    show(data_dir, as_json)


for command in (list_optimizers, *COMMANDS, *SWEEPS):
    bench.add_command(command)
