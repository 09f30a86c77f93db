"""How contestants are run, and how their results become tables and charts."""
