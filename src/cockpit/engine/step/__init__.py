"""A tracked step: one walk through its backward passes, and what was measured of it."""
