"""What the passes share: pragmas, calls of the driver, addresses of elements."""

from __future__ import annotations

from typing import Any, TypeGuard

from tilewright.ir import PrimExpr
from tilewright.tir import (
    AttrStmt,
    Buffer,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Stmt,
    StringImm,
    call_extern,
)
from tilewright.tir.substitution import substitute
from tilewright.vta.compiler.nests import Nest
from tilewright.vta.environment import get_env
from tilewright.vta.names import UNIT_SCOPE


def has_pragma(s: Any, name: str) -> TypeGuard[AttrStmt]:
    """Whether a statement is under a pragma of a schedule."""
    return isinstance(s, AttrStmt) and s.attr_key == f"pragma_{name}"


def called(name: str, *args: Any) -> Stmt:
    """A call of the accelerator's driver."""
    return Evaluate(call_extern("int32", name, *args))


def name_called(s: Any) -> str:
    """The external function that a statement calls; "" for other statements."""
    if not isinstance(s, Evaluate) or not isinstance(s.value, Call) or s.value.intrinsic != "call_extern":
        return ""
    name = s.value.args[0]
    return name.value if isinstance(name, StringImm) else ""


def in_unit(unit: int, s: Stmt) -> Stmt:
    """A statement of a unit: 1 load, 2 compute, 3 store."""
    dev = get_env().dev
    return AttrStmt(dev.vta_axis, UNIT_SCOPE, IntImm("int32", dev.get_task_qid(unit)), s)


def lanes_of(memory: str) -> int:
    """The numbers of an element of a memory."""
    config = get_env().configuration
    return config.element_bits(memory) // config.width(memory)


def address(buffer: Buffer, offset: PrimExpr | int, mask: str) -> PrimExpr:
    """The address of a number of a buffer. mask: "r", "w" or "rw"."""
    kind = Call(buffer.dtype, "type_annotation", ())
    flags = sum({"r": 1, "w": 2}[c] for c in mask)
    return Call("handle", "tvm_access_ptr", (kind, buffer.data, offset, 1, flags))


def around(nest: Nest, dropped: int, inside: Stmt) -> Stmt:
    """A statement under the loops and conditions of a nest, but for the innermost loops, which stand at their first trip."""
    made = inside
    for condition in reversed(nest.conditions):
        made = IfThenElse(condition, made, None)
    made = substitute(
        made, {var: IntImm(var.dtype, first) for var, first, _ in nest.loops[len(nest.loops) - dropped :]}
    )
    for var, begin, extent in reversed(nest.loops[: len(nest.loops) - dropped]):
        made = For(var, IntImm(var.dtype, begin), IntImm(var.dtype, extent), ForKind.SERIAL, made)
    return made


__all__ = ["address", "around", "called", "has_pragma", "in_unit", "lanes_of", "name_called"]
