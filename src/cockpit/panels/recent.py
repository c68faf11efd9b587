"""The last values of a series: enough of them to say something about the present."""

from cockpit.core.source import Series

ENOUGH = 20  # tracked steps


def last_tenth(series: Series) -> Series:
    """The values of the last 10% of the steps between the first and the last one."""
    if not len(series):
        return series
    late = series.steps >= series.steps[0] + 0.9 * (series.steps[-1] - series.steps[0])
    return Series(series.steps[late], series.values[late])


def recent(series: Series) -> Series:
    """The last 10%, or the last 20 tracked steps where these are more; all where there are fewer."""
    count = max(len(last_tenth(series)), ENOUGH)
    return Series(series.steps[-count:], series.values[-count:])


def counted(part: Series, whole: Series) -> str:
    """How many values these are, in words."""
    return f"{'all' if len(part) == len(whole) else 'last'} {len(part)} tracked"
