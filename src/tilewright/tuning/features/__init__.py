"""Features of programs: a row of numbers for each statement that stores.

linear      indices as sums over loops, and how many values they have
arithmetic  operations of expressions by kind
conditions  the share of the iterations for which a condition holds
stores      the statements of a program: their loops, accesses and operations
footprints  elements and cache lines that the loops inside a level touch
estimate    cycles of a statement on a processor, by a roofline
columns     the row of a statement
"""

from __future__ import annotations

from tilewright.tuning.features.columns import CLASSIC, COLUMNS, Rows, features, features_of, host_threads

__all__ = ["CLASSIC", "COLUMNS", "Rows", "features", "features_of", "host_threads"]
