"""The rules again, slowly: one number after another, in Python's floats, as their formulas are printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any


def path(name: str, start: float, gradients: Sequence[float], **h: Any) -> list[float]:
    """Where one number goes, step by step."""
    if name == "ScheduleFreeAdamW":
        return list(schedule_free(start, gradients, **h))
    if name in ("AdamW", "Lion"):
        return list(decoupled(name, start, gradients, **h))
    steps = {"SGD": sgd, "Momentum": heavy, "NAG": heavy, "Adagrad": adagrad, "RMSprop": rmsprop, "Adadelta": adadelta}
    if name.startswith("LA("):
        return list(studied(name[3:-1], start, gradients, **h))
    if name.startswith("Lookahead("):
        return list(published(name[10:-1], start, gradients, **h))
    found, theta = [], start
    for step in steps.get(name, adaptive)(name, gradients, **h):
        theta = theta - step
        found.append(theta)
    return found


def sgd(name: str, gradients: Sequence[float], lr: float) -> Iterator[float]:
    for g in gradients:
        yield lr * g


def heavy(name: str, gradients: Sequence[float], lr: float, momentum: float) -> Iterator[float]:
    a = 0.0
    for g in gradients:
        a = momentum * a + g
        yield lr * (g + momentum * a) if name == "NAG" else lr * a


def adagrad(name: str, gradients: Sequence[float], lr: float) -> Iterator[float]:
    s = 0.1
    for g in gradients:
        s += g**2
        yield lr * g / math.sqrt(s)


def rmsprop(name: str, gradients: Sequence[float], lr: float, alpha: float, eps: float) -> Iterator[float]:
    s = 1.0
    for g in gradients:
        s = alpha * s + (1 - alpha) * g**2
        yield lr * g / math.sqrt(s + eps)


def adadelta(name: str, gradients: Sequence[float], lr: float, rho: float, eps: float) -> Iterator[float]:
    s = d = 0.0
    for g in gradients:
        s = rho * s + (1 - rho) * g**2
        u = math.sqrt(d + eps) / math.sqrt(s + eps) * g
        d = rho * d + (1 - rho) * u**2
        yield lr * u


def adaptive(
    name: str,
    gradients: Sequence[float],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    final_lr: float = 0.0,
    gamma: float = 0.0,
    clock: int | None = None,
) -> Iterator[float]:
    """Adam's kin; ``clock`` stands still where it is given."""
    m = v = w = 0.0
    for place, g in enumerate(gradients):
        t = place + 1 if clock is None else clock
        m = beta1 * m + (1 - beta1) * g
        seen = g - m if name == "AdaBelief" else g
        v = beta2 * v + (1 - beta2) * seen**2 + (eps if name == "AdaBelief" else 0.0)
        w = max(w, v)
        c = math.sqrt(1 - beta2**t) / (1 - beta1**t)
        root = math.sqrt(w if name in ("AMSGrad", "AMSBound") else v) + eps
        if name in ("AdaBound", "AMSBound"):
            low, high = final_lr * (1 - 1 / (gamma * t + 1)), final_lr * (1 + 1 / (gamma * t))
            yield min(max(lr * c / root, low), high) * m
        elif name in ("RAdam", "AdaBelief"):
            yield lr * rectified(m, v, t, beta1, beta2, eps)
        elif name == "NAdam":
            yield lr * c * (beta1 * m + (1 - beta1) * g) / root
        else:
            yield lr * c * m / root


def rectified(m: float, v: float, t: int, beta1: float, beta2: float, eps: float) -> float:
    mean = m / (1 - beta1**t)
    most = 2 / (1 - beta2) - 1
    rho = most - 2 * t * beta2**t / (1 - beta2**t)
    if rho < 5:
        return mean
    factor = math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
    return factor * mean / (math.sqrt(v / (1 - beta2**t)) + eps)


def studied(inner: str, start: float, gradients: Sequence[float], slow: float, k: int, **h: float) -> Iterator[float]:
    """A batch in k is spent on pulling back; the inner rule sees the others only, at a clock of 1."""
    used = [g for count, g in enumerate(gradients) if count % k]
    steps = heavy(inner, used, **h) if inner == "Momentum" else adaptive(inner, used, clock=1, **h)
    theta = anchor = start
    for count in range(len(gradients)):
        if count % k:
            theta -= next(steps)
        else:
            theta = anchor = anchor + slow * (theta - anchor)
        yield theta


def published(inner: str, start: float, gradients: Sequence[float], slow: float, k: int, **h: float) -> Iterator[float]:
    steps = heavy(inner, gradients, **h) if inner == "Momentum" else adaptive(inner, gradients, **h)
    theta = anchor = start
    for t, step in enumerate(steps, 1):
        theta -= step
        if t % k == 0:
            theta = anchor = anchor + slow * (theta - anchor)
        yield theta


def decoupled(
    name: str,
    start: float,
    gradients: Sequence[float],
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float = 0.0,
) -> Iterator[float]:
    theta, m, v = start, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        if name == "Lion":
            c = beta1 * m + (1 - beta1) * g
            theta = theta - lr * (math.copysign(1.0, c) * (c != 0) + weight_decay * theta)
            m = beta2 * m + (1 - beta2) * g
        else:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            step = (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
            theta = theta - lr * (step + weight_decay * theta)
        yield theta


def schedule_free(
    start: float,
    gradients: Sequence[float],
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    judged: bool = False,
) -> Iterator[float]:
    """As the authors' package computes it: y and z alone are kept, and x follows from them."""
    y = z = start
    v = 0.0
    for t, g in enumerate(gradients, 1):
        v = beta2 * v + (1 - beta2) * g**2
        step = g / (math.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * y
        y = y + (z - y) / t + lr * (beta1 * (1 - 1 / t) - 1) * step
        z = z - lr * step
        yield (y - (1 - beta1) * z) / beta1 if judged else y
