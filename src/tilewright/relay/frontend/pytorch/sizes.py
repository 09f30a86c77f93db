"""Symbolic sizes: the sympy expressions of torch.export, converted to expressions over relay's size variables and to tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.relay.cards.relations import Dim, is_any, simplest
from tilewright.relay.frontend.common.sizes import InputSizes, extent_of
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import SizeVar
from tilewright.tir import Var as SizeVariable
from tilewright.tir.op import max as larger
from tilewright.tir.op import min as smaller
from tilewright.tir.stmt_functor import post_order_visit

if TYPE_CHECKING:
    import sympy
    import torch

    from tilewright.relay.frontend.common.builder import Builder
    from tilewright.relay.frontend.pytorch.value import TorchCall

FROM_DATA = (
    "its size {size} depends on the data of a tensor, in a way that is not followed here: what nonzero, masked indexing, unique and"
    " .item() make is. Keep the shape (torch.where, masked_fill), or give the number as a plain argument of the model"
)
UNBACKED = re.compile(r"(u|zuf)\d+")
"""PyTorch's names of numbers that depend on data."""


COMPARISONS = {
    "StrictGreaterThan": "greater", "GreaterThan": "greater_equal", "StrictLessThan": "less", "LessThan": "less_equal",
    "Equality": "equal", "Unequality": "not_equal",
}  # fmt: skip


class SizedValue(Value):
    """A value with extents that depend on data: `extents` has symbols for the extents that its type does not give."""

    __slots__ = ("extents",)

    def __init__(self, value: Value, extents: list[Dim]) -> None:
        super().__init__(value.expr, None, value.name)
        self.extents = extents

    @property
    def shape(self) -> list[Dim]:
        """Extents: ints, or symbols."""
        return list(self.extents)


class Sizes(InputSizes):
    """The size variables of an import, by PyTorch's symbols. `pinned` symbols are numbers."""

    remedy = "Export it with a fixed size there"

    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[str, SizeVariable] = {}
        self.pinned: dict[str, int] = {}
        self.solved: dict[Any, Any] = {}
        """Symbols without an input's extent of their own -> their value (both sympy's), solved from an extent that contains them."""
        self._computed: dict[tuple[int, bool], tuple[Value, PrimExpr]] = {}
        self.from_data: dict[str, Value | tuple[Value, int]] = {}
        """The value of symbols that depend on data: a tensor without axes, or (tensor, an axis of that extent)."""

    def define(self, name: str, source: Value | tuple[Value, int], positive: bool = False) -> PrimExpr:
        """The symbol `name` with the value `source`. A tensor's element may be negative unless `positive` is set."""
        made = SizeVar if positive or isinstance(source, tuple) else SizeVariable
        self.symbols[name] = symbol = made(name, "int64")
        self.from_data[name] = source
        return symbol

    def fresh(self, source: Value | tuple[Value, int]) -> PrimExpr:
        """A new symbol with this value."""
        return self.define(f"found{len(self.from_data)}", source)

    def number_of_data(self, value: Value, positive: bool) -> PrimExpr:
        """The symbol of a number that a program computes, an extent if it is positive: the same for the same value."""
        key = id(value.expr), positive
        if key not in self._computed:
            # The value is held, so that its id stays its own.
            self._computed[key] = value, self.define(f"found{len(self.from_data)}", value, positive)
        return self._computed[key][1]

    def sized(self, value: Value, extents: Sequence[Dim] = ()) -> Value:
        """A value with a symbol for each extent that its type does not give: one of `extents`, or a new one."""
        own = value.shape
        if not any(map(is_any, own)):
            return value
        return SizedValue(value, [self.fresh((value, k)) if is_any(d) else d for k, d in enumerate(extents or own)])

    def adopt(self, value: Value, extents: Any) -> Value:
        """A value with the extents of PyTorch's fake tensor. It defines their symbols."""
        if len(extents) != value.ndim:
            return value
        for k, (mine, theirs) in enumerate(zip(value.shape, extents, strict=True)):
            e = getattr(getattr(theirs, "node", None), "expr", None)
            if e is None or not e.is_Symbol or not UNBACKED.fullmatch(str(e)):
                continue
            if isinstance(mine, int):
                self.pinned[str(e)] = mine
            elif str(e) not in self.from_data:
                self.define(str(e), (value, k))
        if not isinstance(value, SizedValue):
            return value
        try:
            return SizedValue(value, [self.plain(d) for d in extents])
        except OpNotImplemented:
            return value

    def decided_by_data(self, e: sympy.Expr) -> bool:
        """Whether an expression has a symbol that depends on data."""
        if not self.from_data or not isinstance(e, PrimExpr) or isinstance(e, IntImm):
            return False
        found: list[Any] = []
        post_order_visit(e, found.append)
        return any([isinstance(v, SizeVariable) and v.name in self.from_data for v in found])

    def solve(self, extents: Mapping[str, Any]) -> None:
        """Solves extents of inputs (name -> sympy) for a symbol that no other extent gives: 2 * s defines s."""
        import sympy

        plain = {e for e in extents.values() if e.is_Symbol}
        for name, e in extents.items():
            if len(e.free_symbols) != 1 or e.is_Symbol:
                continue
            (symbol,) = e.free_symbols
            if (
                symbol in plain
                or symbol in self.solved
                or str(symbol) in self.pinned
                or not e.is_polynomial(symbol)
                or sympy.degree(e, symbol) != 1
            ):
                continue
            whole = sympy.Symbol(name, integer=True, positive=True)
            self.solved[symbol] = (whole - e.coeff(symbol, 0)) / e.coeff(symbol, 1)

    def plain(self, value: Any) -> Any:
        """A torch.SymInt or number, as an int or an expression."""
        if isinstance(value, (bool, int, float)):
            return value
        node = getattr(value, "node", None)
        if node is None:
            return value
        return self.expression(node.expr)

    def shape(self, tensor: torch.Tensor) -> list[Any]:
        """A fake tensor's extents."""
        return [self.plain(d) for d in tensor.shape]

    def expression(self, e: sympy.Expr) -> Any:
        """A sympy expression as an int or an expression over size variables."""
        made = self._made(e.subs(self.solved) if self.solved else e)
        if isinstance(made, PrimExpr):
            made = simplest(made)
        return made.value if isinstance(made, IntImm) else made

    def _made(self, e: sympy.Expr) -> Any:
        kind = type(e).__name__
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            return self._symbol(str(e))
        if kind in ("Add", "Mul"):
            top, bottom = e.as_numer_denom()
            if bottom != 1:
                return self._made(top) // self._made(bottom)
            parts = [self._made(a) for a in e.args]
            result = parts[0]
            for p in parts[1:]:
                result = result + p if kind == "Add" else result * p
            return result
        if kind == "Pow" and e.exp.is_Integer and int(e.exp) > 0:
            result = base = self._made(e.base)
            for _ in range(int(e.exp) - 1):
                result = result * base
            return result
        args = [self._made(a) for a in e.args]
        if kind in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
            return args[0] // args[1]
        if kind == "CeilDiv":
            return (args[0] + args[1] - 1) // args[1]
        if kind in ("Mod", "PythonMod"):
            return args[0] % args[1]
        if kind == "ModularIndexing":
            return (args[0] // args[1]) % args[2]
        if kind in ("Max", "Min"):
            result = args[0]
            for a in args[1:]:
                result = (larger if kind == "Max" else smaller)(result, a)
            return result
        if kind in ("ToFloat", "TruncToInt", "FloorToInt", "Identity", "RoundToInt"):
            return args[0]
        raise OpNotImplemented(
            f"a size is {e}, and {kind} of sizes is not supported. Export it with a fixed size there"
        )

    def _symbol(self, name: str) -> Dim:
        if name in self.pinned:
            return self.pinned[name]
        if UNBACKED.fullmatch(name) and name not in self.from_data:
            raise OpNotImplemented(FROM_DATA.format(size=name))
        return self.symbols.setdefault(name, SizeVar(name, "int64"))

    def condition(self, c: TorchCall, e: sympy.Expr) -> Value:
        """A comparison of sizes (sympy), or a combination of several, as a tensor of bool without axes."""
        kind = type(e).__name__
        if kind in ("BooleanTrue", "BooleanFalse"):
            return c.number(kind == "BooleanTrue", "bool")
        if kind == "Not":
            return c.call("logical_not", self.condition(c, e.args[0]))
        if kind in ("And", "Or"):
            result = self.condition(c, e.args[0])
            for a in e.args[1:]:
                result = c.call("logical_and" if kind == "And" else "logical_or", result, self.condition(c, a))
            return result
        sides = [c.size(self.expression(a)) if a.is_integer else self.number(c, a) for a in e.args]
        dtype = "int64" if all([a.is_integer for a in e.args]) else "float32"
        return c.call(COMPARISONS[kind], *[c.cast(s, dtype) for s in sides])

    def number(self, c: TorchCall, e: sympy.Expr) -> Value:
        """A sympy expression of floats as a tensor of float32 without axes; a comparison as one of bool."""
        kind = type(e).__name__
        if e.is_Boolean or e.is_Relational:
            return self.condition(c, e)
        if e.is_number:
            return c.number(float(e), "float32")
        if str(e) in self.from_data:
            held = self.from_data[str(e)]
            return c.cast(held, "float32") if isinstance(held, Value) else c.tensor(self.expression(e), "float32")
        if e.is_Symbol or kind in ("FloorDiv", "CleanDiv", "Mod", "PythonMod", "Max", "Min"):
            return c.tensor(self.expression(e), "float32")
        keys = {
            "Add": "add",
            "Mul": "multiply",
            "IntTrueDiv": "divide",
            "FloatTrueDiv": "divide",
            "FloatPow": "power",
            "Pow": "power",
        }
        if kind == "ToFloat":
            return self.number(c, e.args[0])
        if kind == "OpaqueUnaryFn_sqrt":
            return c.call("sqrt", self.number(c, e.args[0]))
        if kind not in keys:
            raise OpNotImplemented(
                f"it computes with {e} of sizes, and {kind} is not supported. Export it with a fixed size there"
            )
        result = self.number(c, e.args[0])
        for a in e.args[1:]:
            result = c.call(keys[kind], result, self.number(c, a))
        return result

    def _read(self, c: Builder, size: SizeVariable) -> Value:
        held = self.from_data.get(size.name)
        if held is not None:
            return held if isinstance(held, Value) else extent_of(c, held[0].expr, held[1])
        return super()._read(c, size)
