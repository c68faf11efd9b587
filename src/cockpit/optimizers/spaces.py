"""Where hyperparameters are searched: table 6.2 of the study, in the words of a study file."""

from typing import Any

RATE = {"lr": {"log": [1e-4, 1.0]}}
DECAY = {"log1m": [1e-4, 1.0]}  # 1 - decay is log-uniform
MOMENTS = {"beta1": {"log": [0.5, 0.999]}, "beta2": {"log": [0.8, 0.999]}}
LOOK: dict[str, Any] = {**RATE, "slow": {"log": [1e-4, 1.0]}, "k": {"int": [1, 20]}}
BOUND: dict[str, Any] = {**RATE, "final_lr": {"log": [1e-3, 0.5]}, **MOMENTS, "gamma": {"log": [1e-4, 0.1]}}

# The study drew exponents of ten that were rounded: its draws come out with these, not with the table's bounds.
EXPONENTS = {
    "lr": (-4.0, 0.0),
    "slow": (-4.0, 0.0),
    "final_lr": (-3.0, -0.301),
    "beta1": (-0.301, -0.00043),
    "beta2": (-0.0969, -0.00043),
    "gamma": (-4.0, -1.0),
    "momentum": (-4.0, 0.0),  # of 1 - momentum, and so are the next two
    "alpha": (-4.0, 0.0),
    "rho": (-4.0, 0.0),
}
