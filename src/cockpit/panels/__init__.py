"""What to draw, as data: one definition of every instrument for the page, the figure and the notebook."""

from cockpit.panels._base import Panel, View
from cockpit.panels.screen import deck, layers, panel

__all__ = ["Panel", "View", "deck", "layers", "panel"]
