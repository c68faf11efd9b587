"""Results as Markdown tables; the original's numbers stand in brackets."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

from results import Row

PRESETS = ("economy", "business", "full")
EVERY = (1, 4, 16, 64, 256, None)
ORDER = ("logreg", "mlp", "2c2d", "3c3d", "resnet50", "gpt2", "gpt2-bf16", "resnet-small", "gpt-small")
TITLES = {
    "logreg": "logistic regression",
    "mlp": "MLP",
    "resnet50": "ResNet-50, BatchNorm, 224 x 224",
    "gpt2": "GPT-2 (124M), 1,024 tokens",
    "gpt2-bf16": "the same in bfloat16",
    "resnet-small": "small ResNet, BatchNorm, 32 x 32",
    "gpt-small": "small GPT, 64 tokens",
}
SMALL = (*ORDER[:4], "tiny")
MODES = {"": "the device is waited for after each step", "free_": "steps run freely, as in training"}


class Results:
    """Rows of one device, found by what they say."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)

    def find(self, tool: str = "cockpit", **wanted: Any) -> list[Row]:
        """All rows with these values."""
        wanted |= {"tool": tool}
        return [row for row in self.rows if all(row.get(name) == value for name, value in wanted.items())]

    def one(self, tool: str = "cockpit", **wanted: Any) -> Row | None:
        """The only row with these values."""
        return next(iter(self.find(tool, **wanted)), None)

    def nets(self, **wanted: Any) -> list[tuple[str, str]]:
        """Nets and optimizers that have such rows, in the usual order."""
        found = {(row["net"], row["optimizer"]) for row in self.find(**wanted)}
        return sorted(found, key=lambda key: (key[1] != "SGD", ORDER.index(key[0]) if key[0] in ORDER else 99, key))

    @property
    def modes(self) -> list[str]:
        """Prefixes of the ways of timing."""
        return [mode for mode in MODES if any(f"{mode}ratio" in row for row in self.find(kind="time"))]

    def pair(self, show: Callable[[Row], str], **wanted: Any) -> str:
        """This package's number, and the original's in brackets."""
        ours, original = self.one(**wanted), self.one("original", **wanted)
        text = "" if ours is None else _shown(ours, show)
        return text if original is None else f"{text} ({_shown(original, show)})".strip()


def _shown(row: Row, show: Callable[[Row], str]) -> str:
    if "error" in row:
        return "out of memory" if "OutOfMemory" in row["error"] else "failed"
    return show(row) + ("*" if row.get("undefined") else "")


def group_of(row: Row) -> str:
    """The group of measurements that a row belongs to."""
    if row["kind"] == "budget" or row["net"] not in SMALL:
        return "budget" if row["kind"] == "budget" else "large"
    if row["kind"] == "memory":
        return "memory"
    return "quantities" if row["what"] not in PRESETS else "nets" if row["every"] == 1 else "intervals"


def times(ratio: float) -> str:
    """A ratio with as many digits as are worth something."""
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def name(net: str, optimizer: str = "SGD") -> str:
    """A net's name for the eye."""
    return TITLES.get(net, net) + (f", {optimizer}" if optimizer != "SGD" else "")


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table, empty without numbers; columns that are empty all the way down are left out."""
    rows = [row for row in body if any(row[1:])]
    kept = [column for column in range(len(head)) if any(row[column] for row in rows)]
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "\n".join("| " + " | ".join(line[column] for column in kept) + " |" for line in lines)


def presets(results: Results, mode: str) -> str:
    """A tracked step as a multiple of a plain one."""
    body = []
    for net, optimizer in results.nets(kind="time", every=1, what="economy"):
        if net in SMALL:
            key: dict[str, Any] = {"kind": "time", "net": net, "optimizer": optimizer, "every": 1}
            plain = results.one(**key, what="economy") or {}
            cells = [results.pair(lambda row: times(row[f"{mode}ratio"]), **key, what=what) for what in PRESETS]
            first = [results.one(**key, what=what) or {} for what in PRESETS]
            begun = " / ".join(f"{row['warmup_ms'][0]:.0f}" for row in first if "warmup_ms" in row and not mode)
            body.append([name(net, optimizer), f"{plain[f'{mode}plain_ms']:.3g} ms", *cells, begun and f"{begun} ms"])
    return table(["", "plain step", *PRESETS, "first step of a watch"], body)


def intervals(results: Results, mode: str) -> str:
    """Mean time of a step at longer intervals."""
    body = []
    for net, what in product((net for net, _ in results.nets(kind="time", every=16) if net in SMALL), PRESETS):
        key = {"kind": "time", "net": net, "optimizer": "SGD", "what": what}
        cells = [results.pair(lambda row: _interval(row, mode), **key, every=every) for every in EVERY]
        if any(cells):
            body.append([name(net), what, *cells])
    return table(["", "", *(f"every {every}" if every else "nothing due" for every in EVERY)], body)


def _interval(row: Row, mode: str) -> str:
    exact = row["every"] is None or row[f"{mode}ratio"] < 1.1
    text = f"{row[f'{mode}ratio']:.3f}" if exact else times(row[f"{mode}ratio"])
    return f"≈ {text}" if "derived_from" in row else text


def quantities(results: Results, mode: str, names: Sequence[str]) -> str:
    """Each quantity alone, every step tracked."""
    nets = [net for net, _ in results.nets(kind="time", what="GradNorm")]
    body = []
    for what in names:
        key = {"kind": "time", "optimizer": "SGD", "every": 1, "what": what}
        body.append([what, *(results.pair(lambda row: times(row[f"{mode}ratio"]), **key, net=net) for net in nets)])
    return table(["", *map(name, nets)], body)


def memory(results: Results) -> str:
    """Peak of a step above what the model and its data take."""
    body = []
    for net, optimizer in results.nets(kind="memory"):
        if net in SMALL:
            body.append(_memory(results, net, optimizer))
    return table(["MiB", "plain step", *PRESETS], body)


def _memory(results: Results, net: str, optimizer: str) -> list[str]:
    key = {"kind": "memory", "net": net, "optimizer": optimizer}
    plain = next((row for row in results.find(**key) if "plain_mib" in row), None)
    cells = [results.pair(lambda row: f"{row['tracked_mib']:,.0f}", **key, what=what) for what in PRESETS]
    return [name(net, optimizer), f"{plain['plain_mib']:,.0f}" if plain else "", *cells]


def budget(results: Results) -> str:
    """What a share of the time buys."""
    rows = [row for net, _ in results.nets(kind="budget") for row in results.find(kind="budget", net=net)]
    head = ["", "", "time of the steps", "block by block", "of the whole run", "steps tracked", "opening + closing"]
    return table(head, [_budget(row) for row in rows if "error" not in row])


def _budget(row: Row) -> list[str]:
    """One line; older rows know neither blocks nor tiers."""
    steps = f"{row['ratio']:.3f}" + (f" ± {row['chance']:.3f}" if "chance" in row else "")
    blocks = f"{row['block_ratio']:.3f}" if "block_ratio" in row else ""
    ends = f"{row['open_ms']:.0f} + {row['close_ms']:.0f} ms"
    return [name(row["net"]), row["what"], steps, blocks, f"{row['total_ratio']:.3f}", _tracked(row), ends]


def _tracked(row: Row) -> str:
    """How many steps, and with what; a dear tier includes the cheaper ones."""
    counts = f"{row['tracked']:,} of {row['steps']:,}, {row['complete']:,} with everything"
    tiers = row.get("tiers") or {}
    return counts + (f" ({', '.join(f'{tier} {count:,}' for tier, count in tiers.items())})" if len(tiers) > 1 else "")


def large(results: Results, mode: str) -> str:
    """Nets that are not in the paper's figures: time and memory."""
    body = []
    for net, optimizer in results.nets(kind="time", every=1, what="economy"):
        if net in ORDER[4:]:
            key = {"kind": "time", "net": net, "optimizer": optimizer}
            plain = results.one(**key, every=1, what="economy") or {}
            wanted = [*((what, 1) for what in PRESETS), ("economy", 16)]
            cells = [results.pair(lambda row: _interval(row, mode), **key, what=w, every=e) for w, e in wanted]
            peaks = [text for text in _memory(results, net, optimizer)[1:] if text]
            ms = plain.get(f"{mode}plain_ms")
            batch = f"{name(net, optimizer)}, batch {plain['batch']}"
            body.append([batch, f"{ms:.3g} ms" if ms else "", *cells, " / ".join(peaks)])
    return table(["", "plain step", *PRESETS, "economy, every 16", "peak MiB, plain / " + " / ".join(PRESETS)], body)


def undefined(results: Results) -> str:
    """What stars mean."""
    reasons: dict[str, list[str]] = {}
    for row in results.find(kind="time", every=1):
        for what, why in (row.get("undefined") or {}).items():
            if row["what"] in PRESETS:
                reasons.setdefault(f"{name(row['net'], row['optimizer'])}: {why}", []).append(what)
    lines = [f"{', '.join(sorted(set(whats)))} on {where}" for where, whats in reasons.items()]
    return "\n".join(f"- * undefined there: {line}" for line in lines)
