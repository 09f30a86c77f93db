"""Sequences and mappings in fields of nodes, under their classic names: they are Python's own, and not to be changed."""

from __future__ import annotations

from collections.abc import Mapping

Array: type = tuple
"""`isinstance(buffer.shape, tvm.ir.Array)`."""
Map: type = Mapping
"""`isinstance(func.buffer_map, tvm.ir.Map)`."""
