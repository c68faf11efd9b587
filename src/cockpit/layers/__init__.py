"""Per-sample gradient rules: one file per family of operations, looked up by the autograd node's name.

A rule turns what autograd saved for its own backward (inputs) and the gradient that arrives at the operation's output
into the per-sample gradient of one of its operands, in one of a few forms.
"""

from cockpit.layers._rule import Rule, Use, rule_for
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Form, Indexed, Summed, combine

__all__ = [
    "AnyForm",
    "Convolved",
    "Dense",
    "Factored",
    "Form",
    "Indexed",
    "Rule",
    "Summed",
    "Use",
    "combine",
    "rule_for",
]
