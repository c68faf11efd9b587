from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from cockpit.bench.progress import Bar, Lines, Progress, described, shown
from cockpit.results.result import Result

RESULT = Result(
    "tiny", "SGD", {"lr": 0.1}, 42, 10, 2, {"train_loss": [2.0], "test_loss": [3.0], "test_accuracy": [0.5]}
)


def tell(progress: Progress) -> None:
    progress.begin("tiny SGD seed 42", 24, 0)
    progress.epoch(0, RESULT)
    for _ in range(12):
        progress.step()
    progress.epoch(1, replace(RESULT, curves={name: [*values, 0.25] for name, values in RESULT.curves.items()}))
    progress.end("done [1]")


def test_described() -> None:
    assert described(RESULT) == "train loss 2  test loss 3  test accuracy 50.00%"
    assert described(replace(RESULT, curves={"test_loss": [1.23456]})) == "test loss 1.235"
    assert described(replace(RESULT, curves={})) == ""


def test_a_line_for_each_epoch() -> None:
    said: list[str] = []
    tell(Lines(said.append))
    assert said == [
        "tiny SGD seed 42  epoch 0/2  train loss 2  test loss 3  test accuracy 50.00%",
        "tiny SGD seed 42  epoch 1/2  train loss 0.25  test loss 0.25  test accuracy 25.00%",
        "done [1]",
    ]


def test_elsewhere_than_on_a_terminal() -> None:
    file = StringIO()
    with shown(Console(file=file, width=20)) as progress:
        assert isinstance(progress, Lines)
        tell(progress)
    assert file.getvalue().splitlines()[2] == "done [1]"
    assert len(file.getvalue().splitlines()) == 3


def test_the_time_that_remains_is_shown_on_a_narrow_terminal() -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None, _environ={})
    with shown(console) as progress:
        assert isinstance(progress, Bar)
        progress.begin("quadratic_deep SGD lr 0.01 seeds 42 to 51", 700, 0)
        progress.epoch(12, RESULT)
        progress._bars.refresh()
    (line,) = {line for line in file.getvalue().splitlines() if "epoch 12/2" in line}
    assert "seeds 42 to 51 " in line
    assert " -:--:-- " in line


def test_a_bar_on_a_terminal() -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=200, _environ={})
    with shown(console) as progress:
        assert isinstance(progress, Bar)
        progress.begin("tiny SGD seed 42", 24, 12)
        progress.epoch(1, RESULT)
        for _ in range(11):
            progress.step()
        (task,) = progress._bars.tasks
        assert task.completed == 12 + 10  # it moves every ten steps
        progress.epoch(2, RESULT)
        assert task.completed == 12 + 11
        assert task.fields["said"].startswith("epoch 2/2  train loss 2")
        progress.end("done [1]")
        progress.end("another was already there")
        assert progress._bars.tasks == []
    assert "done [1]" in file.getvalue()
    assert "another was already there" in file.getvalue()
