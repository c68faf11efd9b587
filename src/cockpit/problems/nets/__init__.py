"""Architectures, one file each; every model follows from its seed."""
