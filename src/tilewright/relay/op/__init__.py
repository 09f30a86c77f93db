"""Operator cards, a file per family. Importing this package registers them all."""
