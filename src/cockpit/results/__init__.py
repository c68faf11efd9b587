"""Results of benchmark runs: read, scored, tabulated; without torch."""
