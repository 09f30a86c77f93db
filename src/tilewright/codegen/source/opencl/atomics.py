"""Atomic additions of OpenCL C. Those of floats compare and exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.source.device.refused import Refused
from tilewright.codegen.source.text.operands import Text
from tilewright.ir import DataType

if TYPE_CHECKING:
    from tilewright.codegen.source.opencl.dialect import OpenCL

LOOP = """// Adds to an element, and returns what it was.
static inline {kind} {name}(volatile {space} {kind}* place, {kind} value) {{
  {word} before, old = as_{word}(*place);
  do {{
    before = old;
    old = {exchange}((volatile {space} {word}*)place, before, as_{word}(as_{kind}(before) + value));
  }} while (old != before);
  return as_{kind}(old);
}}"""


def add(dialect: OpenCL, pointer: Text, value: Text, dtype: DataType, space: str) -> Text:
    """The call that adds to an element in a space."""
    kind = dialect.scalar(dtype)
    if str(dtype) in ("int32", "uint32"):
        return Text(f"atomic_add({pointer}, {value})")
    if dtype.bits == 64:
        dialect.extension("cl_khr_int64_base_atomics")
        if not dtype.is_float:
            return Text(f"atom_add({pointer}, {value})")
    if str(dtype) not in ("float32", "float64"):
        raise Refused(f"OpenCL C has no atomic addition of {dtype}; add to int32, int64, float32 or float64")
    name = f"atomic_add_{space.strip('_')}_{kind}"
    word, exchange = ("uint", "atomic_cmpxchg") if dtype.bits == 32 else ("ulong", "atom_cmpxchg")
    dialect.prelude.define(name, LOOP.format(kind=kind, name=name, space=space, word=word, exchange=exchange))
    return Text(f"{name}({pointer}, {value})")


__all__ = ["add"]
