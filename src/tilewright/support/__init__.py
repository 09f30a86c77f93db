"""Knobs, errors, caches and small helpers; imports nothing else of the package."""
