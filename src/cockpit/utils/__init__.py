"""The import paths of the original Cockpit; the code is elsewhere."""
