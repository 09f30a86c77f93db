"""Calls of kernels: addresses, barriers, shuffles, functions of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tilewright.codegen.source.device.mathematics import DeviceMathematics
from tilewright.codegen.source.text.identifiers import Names
from tilewright.codegen.source.text.operands import PRODUCT, RELATION, Text
from tilewright.codegen.source.text.writer import Scope
from tilewright.ir import DataType, GlobalVar, IntImm, PointerType, PrimExpr, PrimType
from tilewright.tir import BufferLoad, Call, StringImm, Var, const
from tilewright.tir.transform.types.legalize import conversion_of


class DeviceCalls(DeviceMathematics):
    """Rules for calls, as a part of a kernel's emitter."""

    _calls: ClassVar[dict[str, Callable[..., Text]]] = {}

    def on_call(self, e: Call) -> Text:
        if isinstance(e.op, GlobalVar):
            raise self.error(f"a kernel cannot call {e.op.name_hint}; inline it", e)
        name = e.intrinsic
        own = self.dialect.rules.get(name)
        if own is not None:
            text: Text = own(self.dialect, self, e)
            return text
        method = self._calls.get(name)
        if method is not None:
            return method(self, e)
        if name in self.dialect.math:
            if not e.dtype.is_float:
                raise self.error(f"{name} takes floating point values, but was given {e.dtype}", e)
            return self.called(name, e.dtype, *e.args)
        raise self.error(
            f"{self.dialect.name} has no rule for the intrinsic tir.{name}; lower it by "
            f'tvm.ir.register_intrin_lowering("tir.{name}", target, f=...), or call a function of your own with call_extern',
            e,
        )

    # --- choices and addresses

    def on_address_of(self, e: Call) -> Text:
        load = e.args[0]
        if not isinstance(load, BufferLoad):
            raise self.error("address_of takes a buffer element", e)
        at = self.offset(load.buffer, load.indices)
        if at is None:
            raise self.error("address_of takes a single element or a ramp", e)
        return self.place(load.buffer, at.start)

    def on_access_ptr(self, e: Call) -> Text:
        annotation, data, offset = e.args[0], e.args[1], e.args[2]
        assert isinstance(data, Var)
        element = annotation.dtype.element
        base = self.pointer_to(data, self.dialect.stored(element), f"{data.name}_{element}")
        lanes = annotation.dtype.lanes
        by = self.index(offset)
        return self.moved(base, Text(f"{by.at(PRODUCT)} * {lanes}", PRODUCT) if lanes > 1 and by != "0" else by)

    def address(self, var: PrimExpr, offset: PrimExpr, dtype: DataType | None = None) -> Text:
        """A pointer `offset` elements behind a variable's address; dtype: of the elements, else that of the variable."""
        if not isinstance(var, Var):
            return self.moved(f"({self.expr(var)})", self.index(offset)) if offset_of(offset) else self.expr(var)
        base = self.stored(var).name if dtype is None else self.pointer_to(var, self.dialect.stored(dtype), var.name)
        at = self.index(offset)
        return self.moved(base, at if len(at) <= 50 else self.temporary(at, offset.dtype, f"{var.name}_at"))

    def on_is_null(self, e: Call) -> Text:
        return Text(f"{self.expr(e.args[0]).at(RELATION + 1)} == 0", RELATION)

    # --- threads

    def done(self, line: str) -> Text:
        """Writes a statement that has no value."""
        self.line(line)
        self.forget()
        return Text("0")

    def on_barrier(self, e: Call) -> Text:
        scope = e.args[0]
        return self.done(self.dialect.barrier(scope.value if isinstance(scope, StringImm) else "shared"))

    def on_shuffle_by(self, e: Call) -> Text:
        return self.dialect.shuffle(e.intrinsic, e.dtype, [self.expr(a) for a in e.args])

    def on_active_mask(self, e: Call) -> Text:
        return self.dialect.active_mask()

    def on_atomic_add(self, e: Call) -> Text:
        pointer, value = e.args[:2]
        scope = "global"
        if isinstance(pointer, Call) and isinstance(pointer.args[0], BufferLoad):
            scope = self.stored(pointer.args[0].buffer.data).scope
        elif isinstance(pointer, Call) and len(pointer.args) > 1 and isinstance(pointer.args[1], Var):
            scope = self.stored(pointer.args[1]).scope
        text = self.dialect.atomic_add(self.expr(pointer), self.expr(value), value.dtype, scope)
        return self.effect(text, value.dtype)

    # --- functions of the language

    def effect(self, text: Text, dtype: DataType) -> Text:
        """Writes a call whose effects must happen here. Returns its result: a name, or "0" where nobody takes it."""
        self.forget()
        if dtype.code in ("void", "") or self.is_statement:
            return self.done(f"{text};")
        return self.temporary(text, dtype, "result")

    def on_extern(self, e: Call) -> Text:
        symbol = e.args[0]
        if not isinstance(symbol, StringImm):
            raise self.error("a call of a function names it with a string", e)
        name = symbol.value
        if len(e.args) == 2:
            x = Var("x", e.args[1].dtype)
            own, meaning = self.dialect.conversion(name, x.dtype.lanes), conversion_of(name, x)
            if own is not None:
                name = own
            elif meaning is not None:
                name = self.helper(name, x, meaning)
        text = self.function(name, *[self.expr(a) for a in e.args[1:]])
        return text if e.intrinsic == "call_pure_extern" else self.effect(text, e.dtype)

    def helper(self, name: str, x: Var, meaning: PrimExpr) -> str:
        """Defines a function of one argument before the kernels. Returns its name."""
        lanes = x.dtype.lanes
        name = name if lanes == 1 else f"{name}x{lanes}"
        if not self.dialect.prelude.defines(name):
            self.dialect.prelude.define(name, "")
            outer, names = self.scopes, self.names
            self.scopes, self.names, self.variables[x] = [Scope(1)], Names(self.dialect.identifiers, ["x"]), Text("x")
            result = self.value(meaning)
            lines = [*self.scopes[0].lines, f"  return {result};"]
            self.scopes, self.names = outer, names
            head = f"{self.dialect.inline} {self.type_text(meaning.dtype)} {name}({self.type_text(x.dtype)} x)"
            self.dialect.prelude.complete(name, "\n".join([f"{head} {{", *lines, "}"]))
        return name

    def on_nothing(self, e: Call) -> Text:
        return Text("0")

    def on_prefetch(self, e: Call) -> Text:
        """Ignores a hint to the caches of CPUs."""
        return Text("0")

    def on_undefined(self, e: Call) -> Text:
        return self.expr(const(0, e.dtype))

    def on_vector_half(self, e: Call) -> Text:
        value, n = e.args[-1], e.dtype.lanes
        start = 0 if e.intrinsic == "vectorlow" else value.dtype.lanes - n
        lanes = self.lanes_of(value)[start : start + n]
        return self.dialect.joined(e.dtype, lanes) if n > 1 else lanes[0]

    def on_vector_combine(self, e: Call) -> Text:
        return self.dialect.joined(e.dtype, [lane for a in e.args[:2] for lane in self.lanes_of(a)])

    def on_return(self, e: Call) -> Text:
        return self.done("return;")

    is_statement = False
    """Whether the call that is being written is a statement of its own."""


def offset_of(e: PrimExpr) -> bool:
    """Whether an offset is another one than 0."""
    return not isinstance(e, IntImm) or e.value != 0


def pointee(var: Var) -> DataType | None:
    """The type of the elements that a handle points to, if it is known."""
    kind = var.type_annotation
    if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
        element = DataType(kind.element_type.dtype).element
        if element.code not in ("void", "handle", ""):
            return element
    return None


def scope_of(var: Var) -> str:
    """The scope of storage that a handle points to."""
    kind = var.type_annotation
    return str(kind.storage_scope or "global") if isinstance(kind, PointerType) else "global"


__all__ = ["DeviceCalls", "pointee", "scope_of"]
