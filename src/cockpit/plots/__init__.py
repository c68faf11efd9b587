"""The deck on paper and in the terminal; reads logs, never imports torch."""
