"""What quantities measure, where ``docs/extend.md`` teaches to import it from."""

from cockpit.engine.step.observation import Numeric, Observation

__all__ = ["Numeric", "Observation"]
