"""What looks at whole matrices, so that runs do not stand in rows: Muon."""

from cockpit.optimizers.rule import Known
from cockpit.optimizers.spaces import MOMENTS, RATE

MUON = Known(
    name="Muon",
    paper="Jordan, Jin, Boza, You, Cesista, Newhouse and Bernstein 2024",
    summary=(
        "matrices: m = momentum m + (1 - momentum) g; O = (1 - momentum) g + momentum m made orthogonal by five "
        "Newton-Schulz steps in bfloat16; theta -= lr (0.2 sqrt(max(rows, columns)) O + weight_decay theta), torch's; "
        "all other parameters, kernels of convolutions too: AdamW"
    ),
    defaults={"lr": 1e-3, "momentum": 0.95, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1},
    space={
        **RATE,
        "momentum": {"log1m": [1e-3, 0.5]},
        **MOMENTS,
        "weight_decay": {"log": [1e-4, 1.0]},
    },
    version=1,
)
