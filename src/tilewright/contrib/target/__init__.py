"""Forms of other tools that relay programs are written in."""
