"""Compare optimizers on standard problems."""
