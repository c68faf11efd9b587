"""A small reader of LaTeX: is everything that is opened closed again?"""

from __future__ import annotations

import re

TOKEN = re.compile(r"\\begin\{(\w+)\}|\\end\{(\w+)\}|\\.|%[^\n]*|([{}\[\]])")


def check(text: str) -> list[str]:
    """Return the environments in order; fail where braces, brackets or environments do not match."""
    assert text.startswith("\\documentclass")
    stack: list[str] = []
    seen = []
    for found in TOKEN.finditer(text):
        begins, ends, sign = found.groups()
        if begins:
            stack.append(begins)
            seen.append(begins)
        elif ends:
            assert stack, f"\\end{{{ends}}} closes nothing"
            assert stack.pop() == ends
        elif sign and sign in "{[":
            stack.append(sign)
        elif sign:
            assert stack, f"{sign} closes nothing near {text[max(found.start() - 40, 0) : found.start()]!r}"
            assert stack.pop() == {"}": "{", "]": "["}[sign], text[max(found.start() - 60, 0) : found.end()]
    assert stack == []
    assert text.isascii() or "\\usepackage[utf8]{inputenc}" in text
    return seen
