"""A template project."""
