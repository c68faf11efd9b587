"""Tables and pictures of benchmark results.

    python benchmarks/report.py FILE...                        the tables, on the screen
    python benchmarks/report.py FILE... --docs docs/speed.md   into the page, between its marks; pictures beside it

The sections of devices that the files say nothing about stay as they are.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import tables
from results import Row, read
from tables import MODES, Results

DEVICES = {"cpu": "cpu", "cuda": "gpu"}  # and the names of their sections
NAMES = (
    *("Loss", "Time", "GradNorm", "Parameters", "Distance", "UpdateSize", "Alpha", "NormTest", "InnerTest"),
    *("OrthoTest", "CABS", "EarlyStopping", "MeanGSNR", "GradHist1d", "GradHist2d", "HessTrace", "TICTrace", "TICDiag"),
    "HessMaxEV",
)


def machines(results: Results) -> Iterator[str]:
    """One sentence for each tool and machine."""
    for tool, label in (("cockpit", "This package"), ("original", "The original")):
        seen: dict[str, Row] = {str(_where(row["machine"])): row["machine"] for row in results.find(tool)}
        for where, machine in seen.items():
            yield f"{label}: {where}, torch {machine['torch']}, Python {machine['python']}, {machine['date']}."


def _where(machine: Row) -> str:
    host = f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads"
    return f"{machine['gpu']} (host: {host})" if "gpu" in machine else host


def repeat(results: Results, group: str) -> str:
    """The commands that gave the numbers of a table."""
    given = [row["machine"]["command"] for row in results.rows if tables.group_of(row) == group]
    found = dict.fromkeys(f"`{re.sub(' --only( [a-z]+)+| --resume', '', command)} --only {group}`" for command in given)
    return "Repeat: " + ", ".join(found)


def section(results: Results, pictures: dict[str, str]) -> str:
    """All tables of one device, each with the command that repeats it."""

    def figure(which: str, words: str) -> list[str]:
        return [f"![{words}]({pictures[which]})"] if which in pictures else []

    parts = [" ".join(machines(results))]

    def add(heading: str, group: str, found: dict[str, str]) -> None:
        kept = {caption: table for caption, table in found.items() if table}
        if kept:
            parts.extend([f"### {heading}", *figure(group, heading)])
            for caption, table in kept.items():
                parts.extend([f"{caption}:", table] if len(kept) > 1 else [table])
            parts.append(repeat(results, group))

    modes = {MODES[mode].capitalize(): mode for mode in results.modes}
    add("Every step tracked", "nets", {words: tables.presets(results, mode) for words, mode in modes.items()})
    add("Longer intervals", "intervals", {words: tables.intervals(results, mode) for words, mode in modes.items()})
    found = {words: tables.quantities(results, mode, NAMES) for words, mode in modes.items()}
    add("Each quantity alone", "quantities", found)
    add("Peak memory", "memory", {"": tables.memory(results)})
    add("The budget", "budget", {"": tables.budget(results)})
    add("Larger nets", "large", {w: tables.large(results, mode) for w, mode in modes.items()})
    if notes := tables.undefined(results):
        parts.append(notes)
    return "\n\n".join(parts)


def draw(results: Results, device: str, folder: Path) -> dict[str, str]:
    """Write the pictures of one device; return their names by group."""
    import pictures  # needs what draws; the tables do not

    groups = {tables.group_of(row) for row in results.find(kind="time")}
    mode, made, found = results.modes[-1], {}, {}
    if "nets" in groups:
        made["nets"] = pictures.presets(results, mode)
    if "intervals" in groups:
        made["intervals"] = pictures.intervals(results, mode)
    if nets := results.nets(kind="time", what="GradNorm"):
        made["quantities"] = pictures.quantities(results, mode, NAMES, nets[-1][0])
    for group, picture in made.items():
        found[group] = f"speed-{DEVICES[device]}-{group}.png"
        (folder / found[group]).write_bytes(picture)
    return found


def insert(page: str, device: str, text: str) -> str:
    """The page with a new section between the marks of its device."""
    begin, end = (f"<!-- {DEVICES[device]}:{mark} -->" for mark in ("begin", "end"))
    pattern = re.compile(rf"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"the page has no marks {begin} and {end}; put them where the section belongs")
    return pattern.sub(lambda _: f"{begin}\n\n{text}\n\n{end}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, help="the page to bring up to date")
    given = parser.parse_args()
    rows = read(given.files)
    for device in DEVICES:
        results = Results(row for row in rows if row["device"] == device)
        if not results.find():
            continue
        if given.docs is None:
            print(section(results, {}))
            continue
        pictures = draw(results, device, given.docs.parent)
        page = insert(given.docs.read_text(encoding="utf-8"), device, section(results, pictures))
        given.docs.write_text(page, encoding="utf-8")
        print(f"{given.docs}: section {DEVICES[device]}, {len(pictures)} pictures")


if __name__ == "__main__":
    main()
