"""The paper's import paths; nothing lives here."""
