"""Lookahead around another rule: as it ran in the study, and as its paper has it."""

from typing import Any

from torch import Tensor

from cockpit.optimizers.descent import MOMENTUM
from cockpit.optimizers.each import Each, where
from cockpit.optimizers.rectified import RADAM
from cockpit.optimizers.rule import Init, Rule, State, Update
from cockpit.optimizers.spaces import LOOK

_SLOW = {"slow": 0.5, "k": 5}


def _begin(inner: Rule) -> Init:
    def init(theta: Tensor) -> State:
        return {"slow": theta.clone(), **inner.init(theta)}

    return init


def _pulled(now: Each, state: State, slow: Any, theta: Tensor, otherwise: Tensor, kept: State) -> tuple[Tensor, State]:
    """Where it is time, the slow parameters go a part of the way to ``theta``, and the fast ones follow them."""
    anchor = where(now, state["slow"] + slow * (theta - state["slow"]), state["slow"])
    return where(now, anchor, otherwise), {"slow": anchor, **kept}


def _studied(inner: Rule) -> Update:
    def update(
        theta: Tensor, gradient: Tensor, state: State, t: int, *, slow: Any, k: Each, **others: Any
    ) -> tuple[Tensor, State]:
        now = ((t - 1) % k).equals(0)
        moved, after = inner.update(theta, gradient, state, 1, **others)  # the inner clock stands
        kept = {name: where(now, state[name], value) for name, value in after.items()}
        return _pulled(now, state, slow, theta, moved, kept)

    return update


def _published(inner: Rule) -> Update:
    def update(
        theta: Tensor, gradient: Tensor, state: State, t: int, *, slow: Any, k: Each, **others: Any
    ) -> tuple[Tensor, State]:
        moved, after = inner.update(theta, gradient, state, t, **others)
        return _pulled((t % k).equals(0), state, slow, moved, moved, after)

    return update


def _around(inner: Rule, studied: bool) -> Rule:
    space = {**LOOK, **{name: drawn for name, drawn in inner.space.items() if name != "lr"}}
    as_it_ran = (
        "at steps 1, k + 1, 2 k + 1, ... no step of the inner rule, but slow += a (theta - slow), theta = slow, a the "
        f"hyperparameter slow; else {inner.name}'s step with t = 1: {inner.summary}"
    )
    as_published = (
        f"{inner.name}'s step: {inner.summary}; after every k-th slow += a (theta - slow), theta = slow, a the "
        "hyperparameter slow"
    )
    return Rule(
        name=f"{'LA' if studied else 'Lookahead'}({inner.name})",
        paper="Zhang, Lucas, Hinton and Ba 2019",
        summary=as_it_ran if studied else as_published,
        defaults={"lr": inner.defaults["lr"], **_SLOW, **inner.defaults},
        space=space,
        version=1,
        init=_begin(inner),
        update=_studied(inner) if studied else _published(inner),
    )


LA_MOMENTUM, LA_RADAM = (_around(inner, studied=True) for inner in (MOMENTUM, RADAM))
LOOKAHEAD_MOMENTUM, LOOKAHEAD_RADAM = (_around(inner, studied=False) for inner in (MOMENTUM, RADAM))
