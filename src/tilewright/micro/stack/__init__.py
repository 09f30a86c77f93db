"""How much stack programs need: frames from machine code, and the deepest path through the calls."""
