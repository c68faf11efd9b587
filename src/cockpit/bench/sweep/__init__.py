"""Sweeps: the study file, and the machinery that carries its runs out."""
