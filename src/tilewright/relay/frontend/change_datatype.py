"""ChangeDatatype: converts a model to another element type, which may be a user's own (classic `relay.frontend.change_datatype`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, TensorType, Type
from tilewright.ir.transform import function_pass_of
from tilewright.ir.type_parts import map_parts
from tilewright.relay.expr import Call, Constant, Expr, Function
from tilewright.relay.typing.retype import Retype

__all__ = ["ChangeDatatype"]


class _Changed(Retype):
    """Replaces one element type by another in types, constants and dtype attributes."""

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
class ChangeDatatype(_Changed):
    """A pass: parameters, constants, results and dtype attributes of the element type `src` get the type `dst`.

    `tvm.target.datatype.register("posites2", 131)` registers a user's type. Its name here is "custom[posites2]32". The caller casts
    weights that are arguments.
    """

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Expr:
        changed: Expr = self.visit(func)
        return changed
