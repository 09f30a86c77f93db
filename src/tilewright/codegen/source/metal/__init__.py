"""The Metal shading language: its dialect and the back end."""
