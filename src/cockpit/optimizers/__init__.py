"""Update rules of optimizers as pure functions, with their defaults and search spaces."""

from cockpit.optimizers.adam import ADAM, AMSGRAD, NADAM
from cockpit.optimizers.bounded import ADABOUND, AMSBOUND
from cockpit.optimizers.decoupled import ADAMW, LION, SCHEDULE_FREE
from cockpit.optimizers.descent import MOMENTUM, NAG, SGD
from cockpit.optimizers.lookahead import LA_MOMENTUM, LA_RADAM, LOOKAHEAD_MOMENTUM, LOOKAHEAD_RADAM
from cockpit.optimizers.matrices import MUON
from cockpit.optimizers.rectified import ADABELIEF, RADAM
from cockpit.optimizers.rule import Known, Rule
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
LATER = (LOOKAHEAD_MOMENTUM, LOOKAHEAD_RADAM, ADAMW, LION, SCHEDULE_FREE)
RULES: dict[str, Rule] = {rule.name: rule for rule in (*STUDY, *LATER)}
KNOWN: dict[str, Known] = {**RULES, MUON.name: MUON}


def find(name: str) -> Known | None:
    """The optimizer of that name, in any case of letters; None if there is none."""
    return {known.lower(): one for known, one in KNOWN.items()}.get(name.lower())
