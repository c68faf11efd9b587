"""``cockpit bench``: train problems, list them, look at results. Everything heavy is loaded where it is used."""

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
@click.option("--lr", type=float, help="Learning rate; otherwise the optimizer's own.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Another hyperparameter; repeatable.")
@click.option("--seeds", type=click.IntRange(min=1), help=f"How many: {FIRST_SEED}, {FIRST_SEED + 1}, ...")
@click.option("--seed", type=click.IntRange(min=0), help=f"This one alone.  [default: {FIRST_SEED}]")
@click.option("--epochs", type=click.IntRange(min=0), help="Otherwise the problem's own.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Otherwise the problem's own.")
@click.option("--schedule", default="constant", show_default=True, help="constant, cosine, ..., or 0.1@80,120.")
@click.option("--l2", type=click.FloatRange(min=0), help="Factor of the L2 term; otherwise the problem's own.")
@click.option("--watch", type=click.Choice(["economy", "business", "full"]), help="Measure this preset of quantities.")
@click.option("--every", type=click.IntRange(min=1), help="With --watch: at every so many steps, not by a budget.")
@click.option("--out", type=click.Path(path_type=Path), help="Otherwise $COCKPIT_RUNS/bench or runs/bench.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where the data are; otherwise $COCKPIT_DATA.")
@click.option("--no-download", is_flag=True, help="Never download data.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; otherwise a GPU if there is one.")
@click.option("--amp", type=click.Choice(["bf16", "fp16"]), help="Mixed precision.")
@click.option("--compile", is_flag=True, help="Compile the model.")
@click.option("--order", type=click.Choice(["fresh", "fixed", "study"]), default="fresh", show_default=True)
@click.option("--no-validation", is_flag=True, help="Hold nothing out: train on all training data.")
@click.option("--hessian", type=click.IntRange(min=0), default=0, help="quadratic_deep: which matrix.")
@click.option("--label-leak", is_flag=True, help="cifar100: the label in the first pixel, as it once was.")
@click.option("--not-held-out", is_flag=True, help="CIFAR-10, SVHN: validation data redrawn and trained on.")
@click.option(
    "--shuffled-eval", "--augmented-eval", is_flag=True, help="Judge the training loss on the seed's shuffled samples."
)
@click.option("--cut", is_flag=True, help="SVHN: train on the first 64,000 images only, as it once was.")
@click.option("--whole-eval", is_flag=True, help="tolstoi_char_rnn: the whole training text where its loss is judged.")
@click.option("--log-interval", type=click.IntRange(min=1), default=10, show_default=True, help="Steps.")
@click.option("--again", is_flag=True, help="Begin again, also what is complete.")
def run(problem: str, seed: int | None, seeds: int | None, **options: Any) -> None:
    """Train PROBLEM with an optimizer; stopped runs go on where they stopped, complete ones stay as they are."""
    if seed is not None and seeds is not None:
        raise click.UsageError("give --seeds (how many) or --seed (which one), not both")
    if options["every"] is not None and options["watch"] is None:
        raise click.UsageError("--every says how often to measure; say what with --watch")
    from cockpit.bench.working import work

    first = FIRST_SEED if seed is None else seed
    try:
        work(problem, range(first, first + (seeds or 1)), **options)
    except KeyboardInterrupt:
        click.echo("Stopped. The same command goes on where it stopped.", err=True)
        click.get_current_context().exit(130)


@bench.command("list")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where the data are; otherwise $COCKPIT_DATA.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def list_problems(data_dir: Path | None, as_json: bool) -> None:
    """List all problems."""
    from cockpit.bench.listing import show

    show(data_dir, as_json)


for command in (list_optimizers, *COMMANDS, *SWEEPS):
    bench.add_command(command)
