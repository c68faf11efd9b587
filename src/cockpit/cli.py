"""The command line: parse, call, print."""

import click

from cockpit import __version__


@click.group()
@click.version_option(__version__, prog_name="cockpit")
def main() -> None:
    """Show what happens inside a training run."""


@main.command()
@click.option("--steps", default=300, show_default=True, type=click.IntRange(min=1), help="Training steps.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of everything random.")
def demo(steps: int, seed: int) -> None:
    """Train a small embedded problem and print what was measured."""
    from cockpit.demo import demo as run  # torch is loaded only where it is needed

    run(steps, seed)
