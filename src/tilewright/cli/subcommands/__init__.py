"""A module for each command: it imports what it needs when it runs, so that `--help` answers at once."""
