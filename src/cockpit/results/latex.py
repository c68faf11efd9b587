"""LaTeX that compiles: escaped words, coloured tables."""

import math
from collections.abc import Sequence

Shade = tuple[str, int | None]  # a cell's text, and how good it is from 0 to 100

_SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$", "–": "--", "×": r"$\times$"},
}
_TABLE = r"""\documentclass[border=4pt%(options)s]{standalone}
%% with \usepackage{standalone} it can also be \input into a paper
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{booktabs}
\usepackage[table]{xcolor}
\begin{document}
%(tables)s\end{document}
"""
_TABULAR = r"""\begin{tabular}{%(columns)s}
\toprule
%(header)s \\
%(body)s\bottomrule
%(notes)s\end{tabular}
"""


def escaped(text: str) -> str:
    """A text whose characters mean themselves; what a plain LaTeX has no letter for becomes a question mark."""
    found = "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))
    return "".join(letter if ord(letter) < 0x180 else "?" for letter in found)


def shaded(texts: Sequence[str], values: Sequence[float], up: bool) -> list[Shade]:
    """Cells of a row and how good each is: 100 for the best and 0 for the worst, in between by its value."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)

    def grade(value: float) -> int | None:
        if not math.isfinite(value) or high == low:
            return None
        share = (value - low) / (high - low)
        return round(100 * (share if up else 1 - share))

    return [(text, grade(value)) for text, value in zip(texts, values, strict=True)]


def table_document(
    columns: Sequence[str],
    labels: Sequence[tuple[str, str]],
    body: Sequence[Sequence[Shade]],
    notes: Sequence[str] = (),
) -> str:
    """A stand-alone table; a label with a problem's name begins a new block of rows."""
    lines = []
    for (problem, what), cells in zip(labels, body, strict=True):
        rule = "\\midrule\n" if problem else ""
        lines.append(f"{rule}{' & '.join([escaped(problem), escaped(what), *map(_cell, cells)])} \\\\\n")
    return _document("ll" + "r" * len(columns), ["", "", *columns], lines, notes)


def list_document(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A stand-alone list; a row that names something in its first column begins a new block."""
    lines = []
    for row in rows:
        rule = "\\midrule\n" if row[0] else ""
        lines.append(f"{rule}{' & '.join(map(escaped, row))} \\\\\n")
    return _document("ll" + "r" * (len(header) - 3) + "l", header, lines, notes)


def tables_document(titles: Sequence[str], tables: Sequence[str]) -> str:
    """Several tables of ``tabular``, one below the other, each below its title."""
    parts = [f"\\textbf{{{escaped(title)}}}\\\\[2pt]\n{table}" for title, table in zip(titles, tables, strict=True)]
    return _TABLE % {"options": ", varwidth=\\maxdimen", "tables": "\\par\\bigskip\n".join(parts)}


def tabular(header: Sequence[str], rows: Sequence[Sequence[Shade]], words: int, notes: Sequence[str] = ()) -> str:
    """A table whose first columns are words, and whose others are numbers."""
    lines = [f"{' & '.join(map(_cell, row))} \\\\\n" for row in rows]
    return _tabular("l" * words + "r" * (len(header) - words), header, ["\\midrule\n", *lines], notes)


def _document(columns: str, header: Sequence[str], lines: Sequence[str], notes: Sequence[str]) -> str:
    return _TABLE % {"options": "", "tables": _tabular(columns, header, lines, notes)}


def _tabular(columns: str, header: Sequence[str], lines: Sequence[str], notes: Sequence[str]) -> str:
    below = "".join(f"\\multicolumn{{{len(header)}}}{{l}}{{\\footnotesize {escaped(note)}}} \\\\\n" for note in notes)
    words = {"columns": columns, "header": " & ".join(map(escaped, header)), "body": "".join(lines), "notes": below}
    return _TABULAR % words


def _cell(shade: Shade) -> str:
    text, grade = shade
    return escaped(text) if grade is None else f"\\cellcolor{{green!{grade}!red!35}}{escaped(text)}"
