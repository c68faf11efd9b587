"""Student's t distribution, by the incomplete beta function: no statistics package is needed."""

import math
from functools import lru_cache

ACCURACY = 1e-15
STEPS = 500  # of a continued fraction, and of a bisection, at most
TINY = 1e-300


def two_sided(t: float, freedom: int) -> float:
    """The probability that a t of so many degrees of freedom lies as far from 0, on either side."""
    if math.isinf(t):
        return 0.0
    if t * t < freedom:  # where the other side would lose digits
        return 1 - incomplete_beta(t * t / (freedom + t * t), 0.5, freedom / 2)
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache(256)
def quantile(level: float, freedom: int) -> float:
    """The t that a two-sided interval of this level reaches to: 0.998 leaves 0.001 on each side."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 1 - level:
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if two_sided(middle, freedom) > 1 - level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function: the part of a beta distribution below x."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return math.exp(log) * _fraction(x, a, b) / a
    return 1 - math.exp(log) * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, from its front (Lentz's method)."""
    c, d = 1.0, _over(1 - (a + b) * x / (a + 1))
    value = d
    for step in range(1, STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for part in (even, odd):
            d, c = _over(1 + part * d), _away(1 + part / c)
            value *= d * c
        if abs(d * c - 1) < ACCURACY:
            break
    return value


def _away(value: float) -> float:
    return value if abs(value) > TINY else TINY


def _over(value: float) -> float:
    return 1 / _away(value)
