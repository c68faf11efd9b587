"""Update rules of optimizers as pure functions, with their defaults and search spaces."""

from cockpit.optimizers.adam import ADAM, AMSGRAD, NADAM
from cockpit.optimizers.bounded import ADABOUND, AMSBOUND
from cockpit.optimizers.descent import MOMENTUM, NAG, SGD
from cockpit.optimizers.lookahead import LA_MOMENTUM, LA_RADAM, LOOKAHEAD_MOMENTUM, LOOKAHEAD_RADAM
from cockpit.optimizers.rectified import ADABELIEF, RADAM
from cockpit.optimizers.rule import Rule
from cockpit.optimizers.scaled import ADADELTA, ADAGRAD, RMSPROP

# The fifteen of "Descending through a Crowded Valley" (Schmidt, Schneider and Hennig 2021), as they ran there.
STUDY = (
    AMSBOUND,
    AMSGRAD,
    ADABELIEF,
    ADABOUND,
    ADADELTA,
    ADAGRAD,
    ADAM,
    LA_MOMENTUM,
    LA_RADAM,
    MOMENTUM,
    NAG,
    NADAM,
    RADAM,
    RMSPROP,
    SGD,
)
RULES: dict[str, Rule] = {rule.name: rule for rule in (*STUDY, LOOKAHEAD_MOMENTUM, LOOKAHEAD_RADAM)}


def find(name: str) -> Rule | None:
    """The rule of that name, in any case of letters; None if there is none."""
    return {known.lower(): rule for known, rule in RULES.items()}.get(name.lower())
