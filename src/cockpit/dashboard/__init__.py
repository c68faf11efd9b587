"""The live page: a list of runs, and the flight deck of the chosen ones; needs the extra ``ui``."""
