"""Sweeps: what is compared, the settings that are tried, the results that are kept; without torch."""
