"""ChangeDatatype: a model in another element type, such as one of a program's own (classic `relay.frontend.change_datatype`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, TensorType, Type
from tilewright.ir.transform import function_pass_of
from tilewright.ir.type_parts import map_parts
from tilewright.relay.expr import Call, Constant, Expr, Function
from tilewright.relay.typing.retype import Retype

__all__ = ["ChangeDatatype"]


class _Changed(Retype):
    """Types, constants and dtypes in attributes of one element type in another."""

    def __init__(self, src: str, dst: str) -> None:
        super().__init__(self.changed)
        self.src, self.dst = DataType(src), DataType(dst)

    def changed(self, t: Type) -> Type:
        if isinstance(t, TensorType):
            return TensorType(t.shape, self.dst) if t.dtype == self.src else t
        return map_parts(t, self.changed)

    def visit_constant(self, const: Constant) -> Expr:
        return const.astype(self.dst) if const.value.dtype.name == self.src else const

    def visit_call(self, call: Call) -> Expr:
        new: Any = super().visit_call(call)
        attrs = new.attrs
        names = [f.name for f in getattr(type(attrs), "_fields", ()) if "dtype" in f.name]
        other = {n: self.dst for n in names if getattr(attrs, n) == self.src}
        changed: Expr = new.replace(attrs=attrs.replace(**other)) if other else new
        return changed


@function_pass_of(Function)(opt_level=0)
class ChangeDatatype:
    """A pass: parameters, constants and results of the element type `src` are of `dst`, and operators that name `src` name `dst`.

    `tvm.target.datatype.register("posites2", 131)` makes a type of one's own, which is called "custom[posites2]32" here; weights that
    are passed as arguments are cast by the caller.
    """

    def __init__(self, src: str, dst: str) -> None:
        self.changed = _Changed(src, dst)

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Expr:
        changed: Expr = self.changed.visit(func)
        return changed
