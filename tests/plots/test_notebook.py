"""Runs in notebooks: as HTML, and in a real kernel."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.plots.samples import records, stored

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.plots import notebook
from cockpit.plots.reading import read

PICTURE = re.compile(r"src='data:image/png;base64,([^']+)'")


def test_a_picture_that_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    shown = notebook.html(read(stored(tmp_path / "a", state="crashed", name="<run> & 'co'")))
    (data,) = PICTURE.findall(shown)
    assert base64.b64decode(data).startswith(b"\x89PNG")
    rest = PICTURE.sub("", shown)
    assert "&lt;run&gt; &amp; &#x27;co&#x27;" in rest
    assert "<run>" not in rest
    assert "crashed" in rest
    assert "step 9 of 20, loss 0.2, Fuel 7.5" in rest
    assert "http" not in rest
    assert "<script" not in rest


def test_a_picture_is_light(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    pytest.importorskip("PIL")
    shown = notebook.html(read(stored(tmp_path / "a", 40)))
    assert len(shown) < 200_000, "a notebook keeps all that it has shown"


def test_title_and_state_as_far_as_they_are_known() -> None:
    pytest.importorskip("vl_convert")
    shown = PICTURE.sub("", notebook.html(Recorded(records(), "net"), title="<My> run"))
    assert "<b>&lt;My&gt; run</b> &nbsp; step 9" in shown


def test_without_the_library_that_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    named = [*records(), Record(0, "<b>mine</b>", Kind.SCALAR, 1.5), Record(9, "CABS", Kind.SCALAR, None, "<none>")]
    shown = notebook.html(Recorded(named, "net"))
    assert "<td>GradNorm</td><td>total</td><td>5</td>" in shown
    assert "&lt;b&gt;mine&lt;/b&gt;" in shown
    assert "<td>CABS</td><td>value</td><td>undefined</td>" in shown
    assert "CABS at step 9: &lt;none&gt;." in shown
    assert "No picture: " in shown
    assert "cockpit-deck[plots]" in shown


def test_nothing_recorded_yet() -> None:
    assert "No step has been tracked yet." in notebook.html(Recorded([], "net"))


def test_this_is_no_notebook() -> None:
    assert not notebook.inside()


# ---- in a real kernel


def executed(folder: Path, *cells: str) -> Any:
    """Run cells as Jupyter does, and return them with their outputs."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(made, timeout=120, kernel_name="python3", resources=resources).execute()
    return made.cells


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of this interpreter, with the packages of this test."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.setenv("PYTHONWARNINGS", "default")


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
@pytest.mark.filterwarnings("default")
def test_a_run_and_a_plotter_show_themselves(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    stored(tmp_path / "a")
    run, plotter, shown = executed(
        tmp_path,
        "import cockpit; run = cockpit.open_run('a'); run",
        "cockpit.CockpitPlotter().plot('a', plot_title='mine', discard=4)",
        "run.show()",
    )
    for cell in (run, plotter, shown):
        assert PICTURE.search(cell.outputs[0].data["text/html"])
    assert run.outputs[0].data["text/plain"].startswith("<cockpit run 'digits', finished")
    assert "<b>mine</b>" in plotter.outputs[0].data["text/html"]


FOLLOW = """
import time
from pathlib import Path
from cockpit import store
from cockpit.plots.notebook import Display
from tests.plots.samples import METADATA, frame

writer = store.create(Path("a"), METADATA)
writer.append(frame(0)); writer.step = 0
display = Display(lambda: store.StoredRun("a"), seconds=0.1)
"""
TRAIN = """
for step in range(1, 5):
    writer.append(frame(step)); writer.step = step
    time.sleep(0.05)
writer.close()

display.close(); display.close()
print("closed", display._artist._process)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
@pytest.mark.filterwarnings("default")
def test_a_display_follows_the_run_in_its_own_cell(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    follow, train = executed(tmp_path, FOLLOW, TRAIN)
    (shown,) = follow.outputs
    assert "finished" in shown.data["text/html"], "the cell of the display shows the end, though another cell made it"
    assert "step 4 of 20" in shown.data["text/html"]
    assert PICTURE.search(shown.data["text/html"])
    assert [output.text for output in train.outputs] == ["closed None\n"]


WATCH_ENDED = """
import cockpit, time
run = cockpit.open_run("a")
run.show(follow=True)
for _ in range(300):
    if not [t for t in __import__("threading").enumerate() if t.name == "cockpit display"]: break
    time.sleep(0.1)
else:
    raise RuntimeError("the display goes on though the run has ended")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
@pytest.mark.filterwarnings("default")
def test_following_a_run_ends_with_it(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    begin = "import threading\n" + FOLLOW.split("display = ")[0] + "threading.Timer(3, writer.close).start()"
    _, ended = executed(tmp_path, begin, WATCH_ENDED)
    assert "finished" in ended.outputs[0].data["text/html"]


WATCHED = """
import torch, cockpit
from torch import nn
torch.set_num_threads(1)
model, loss_fn = nn.Linear(3, 2), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pit = cockpit.watch(model, optimizer, loss_fn, every=1, run={run})
pit.show()
"""
LOOP = """
for _ in range(3):
    optimizer.zero_grad()
    loss_fn(model(torch.randn(4, 3)), torch.tensor([0, 1, 0, 1])).backward()
    optimizer.step()
pit.close()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("run", ["'a'", "False"])
def test_a_watch_shows_itself_while_it_trains(tmp_path: Path, run: str) -> None:
    pytest.importorskip("vl_convert")
    watch, _, itself, again = executed(tmp_path, WATCHED.format(run=run), LOOP, "pit", "pit.show()")
    for cell in (watch, itself, again):
        assert PICTURE.search(cell.outputs[0].data["text/html"])
        assert "step 2" in cell.outputs[0].data["text/html"] or "step 3" in cell.outputs[0].data["text/html"]
