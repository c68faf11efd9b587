"""A training loop that is watched: what is due, what is measured, what it costs, and where it is recorded."""
