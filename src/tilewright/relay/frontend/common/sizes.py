"""Dynamic dimensions as tensors: sizes that a program computes from the shapes of its inputs at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.relay.cards.relations import Dim, dims
from tilewright.relay.expr import Var
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import EQ, LE, LT, NE, Add, Cast, FloorDiv, FloorMod, Max, Min, Mul, Select, Sub
from tilewright.tir import Any as AnyDim
from tilewright.tir import Var as SizeVariable

if TYPE_CHECKING:
    from tilewright.relay.frontend.common.builder import Builder


class InputSizes:
    """The inputs of a program, `homes`. Dynamic dimensions are read from their shapes. `remedy` ends messages."""

    remedy = "Pin it: shape={input name: [...]}"

    def __init__(self) -> None:
        self.homes: list[Var] = []
        self.measured: dict[SizeVariable, tuple[Value, int]] = {}
        """Extents that are known only at run time, by the name that stands for them in expressions."""
        self._names: dict[tuple[int, int], SizeVariable] = {}

    def named(self, x: Value, axis: int) -> Dim:
        """The extent of an axis. An unknown extent gets a name."""
        d = x.shape[axis]
        if not isinstance(d, AnyDim):
            return d
        key = id(x.expr), axis
        if key not in self._names:
            self._names[key] = name = SizeVariable(f"extent_{len(self._names)}", "int64")
            self.measured[name] = x, axis
        return self._names[key]

    def is_measured(self, e: Any) -> bool:
        """Whether an expression contains extents that are known only at run time."""
        if isinstance(e, SizeVariable):
            return e in self.measured
        if not isinstance(e, PrimExpr) or isinstance(e, IntImm) or not self.measured:
            return False
        parts = [getattr(e, k, None) for k in ("a", "b", "value", "condition", "true_value", "false_value")]
        return any([self.is_measured(p) for p in parts if isinstance(p, PrimExpr)])

    def tensor(self, c: Builder, e: PrimExpr) -> Value:
        """A size as a tensor of int64, read from an input's shape at run time. `c` makes operators."""
        if isinstance(e, IntImm):
            return c.size(e.value)
        if isinstance(e, SizeVariable):
            return self._read(c, e)
        if isinstance(e, Cast):
            return self.tensor(c, e.value)
        if isinstance(e, Select):
            return c.call("where", *[self.tensor(c, p) for p in (e.condition, e.true_value, e.false_value)])
        keys: dict[type, str] = {
            Add: "add", Sub: "subtract", Mul: "multiply", FloorDiv: "floor_divide", FloorMod: "floor_mod", Max: "maximum",
            Min: "minimum", EQ: "equal", NE: "not_equal", LT: "less", LE: "less_equal",
        }  # fmt: skip
        key = keys.get(type(e))
        if key is None:
            raise OpNotImplemented(f"it computes with the size {e}, which is not supported. {self.remedy}")
        return c.call(key, self.tensor(c, e.a), self.tensor(c, e.b))  # type: ignore[attr-defined]

    def _read(self, c: Builder, size: SizeVariable) -> Value:
        if size in self.measured:
            return extent_of(c, *self.measured[size])
        for x in self.homes:
            for axis, d in enumerate(dims(x.type_annotation)):  # type: ignore[arg-type]
                factor = 1
                if isinstance(d, Mul):
                    by: Any = d.b
                    d, factor = d.a, int(by) if isinstance(by, IntImm) else 0
                if d is size and factor:
                    extent = extent_of(c, x, axis)
                    return c.call("floor_divide", extent, factor) if factor != 1 else extent
        raise OpNotImplemented(f"it computes with the size {size}, which is not an extent of an input. {self.remedy}")


def extent_of(c: Builder, x: Any, axis: int) -> Value:
    """The extent of a tensor's axis, as a tensor of int64 without axes."""
    shape = c.call("shape_of", x, dtype="int64")
    return c.call("squeeze", c.call("strided_slice", shape, begin=(axis,), end=(axis + 1,)), axis=(0,))
