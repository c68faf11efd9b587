"""``python -m cockpit``: the command line."""

from cockpit.cli import main

main(prog_name="cockpit")
