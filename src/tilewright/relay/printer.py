"""Relay as text: `def @main(%x: Tensor[(1, 3), float32]) { ... }`, every call on a numbered line of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.ir import (
    FuncType,
    GlobalVar,
    IncompleteType,
    IRModule,
    Op,
    TensorType,
    TupleType,
    Type,
    TypeVar,
)
from tilewright.ir.expr import install_astext
from tilewright.ir.span import BaseSpan, SequentialSpan, Span
from tilewright.node import register_printer
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.functor import flow_children


def type_text(t: Type | None) -> str:
    """`Tensor[(1, 3), float32]`; dimensions of which nothing is known print as `?`."""
    if isinstance(t, TensorType):
        if not t.shape:
            return str(t.dtype)
        dims = [dim_text(d) for d in t.shape]
        return f"Tensor[({', '.join(dims)}{',' if len(dims) == 1 else ''}), {t.dtype}]"
    if isinstance(t, TupleType):
        return f"({', '.join([type_text(f) for f in t.fields])}{',' if len(t.fields) == 1 else ''})"
    if isinstance(t, FuncType):
        return f"fn ({', '.join([type_text(a) for a in t.arg_types])}) -> {type_text(t.ret_type)}"
    if isinstance(t, TypeVar):
        return t.name_hint
    if t is None or isinstance(t, IncompleteType):
        return "?"
    return type(t).__name__


def dim_text(d: Any) -> str:
    return "?" if type(d).__name__ == "Any" else str(d)


def span_text(span: BaseSpan | None) -> str:
    """The names of the sources a span stands for, such as the names of model nodes."""
    if isinstance(span, Span):
        return span.source_name.name + (f":{span.line}:{span.column}" if span.line else "")
    if isinstance(span, SequentialSpan):
        return ", ".join(dict.fromkeys(filter(None, map(span_text, span.spans))))
    return ""


def attr_text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(attr_text, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:.7g}f"
    return str(value)


def scalar_text(value: Any) -> str:
    suffix = {"float32": "f", "float64": "f64", "int64": "i64", "float16": "f16"}.get(value.dtype.name, "")
    return (f"{float(value):g}" if np.issubdtype(value.dtype, np.floating) else str(value)) + suffix


class Printer:
    """Prints functions; `types` appends the inferred type of every call as a comment."""

    def __init__(self, show_meta_data: bool = False, types: bool = True) -> None:
        self.show_meta_data, self.types = show_meta_data, types
        self.lines: list[str] = []
        self.temps = 0
        self.indent = 0
        self.names: dict[Expr, str] = {}
        self.taken: set[str] = set()
        self.constants: list[Constant] = []

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def var_name(self, var: Var) -> str:
        name = self.names.get(var)
        if name is None:
            base = name = "%" + (var.name_hint or "v")
            count = 0
            while name in self.taken:
                count += 1
                name = f"{base}{count}"
            self.taken.add(name)
            self.names[var] = name
        return name

    def function(self, f: Function, head: str) -> None:
        """A function over several lines, starting with `head` ("def @main" or "fn")."""
        params = ", ".join(
            [
                self.var_name(p) + (f": {type_text(p.type_annotation)}" if p.type_annotation is not None else "")
                for p in f.params
            ]
        )
        attrs = "".join([f", {k}={attr_text(v)}" for k, v in f.attrs.items()])
        ret = f" -> {type_text(f.ret_type)}" if f.ret_type is not None else ""
        self.emit(f"{head}({params}{attrs if params else attrs[2:]}){ret} {{")
        self.block(f.body)
        self.emit("}")

    def block(self, body: Expr) -> None:
        """The statements and the result of one scope."""
        self.indent += 1
        while isinstance(body, Let):
            self.flow(body.value, bound=True)
            self.emit(f"let {self.var_name(body.var)} = {self.text(body.value)};")
            body = body.body
        self.flow(body, bound=True)
        if isinstance(body, (Function, If)):
            self.scope(body, "")
        else:
            self.emit(self.text(body))
        self.indent -= 1

    def flow(self, root: Expr, bound: bool) -> None:
        """A numbered line for every call, tuple and scope that `root` needs, operands first."""
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self.names or isinstance(node, (Var, Constant, GlobalVar, Op)):
                continue
            if not ready:
                stack.append((node, True))
                stack += [(c, False) for c in reversed(flow_children(node))]
                if isinstance(node, If):
                    stack.append((node.cond, False))
            elif not (node is root and bound) and not isinstance(node, TupleGetItem):
                name = f"%{self.temps}"
                self.temps += 1
                if isinstance(node, (Function, If, Let)):
                    self.scope(node, f"{name} = ")
                else:
                    self.emit(f"{name} = {self.text(node)};")
                self.names[node] = name

    def scope(self, node: Expr, head: str) -> None:
        end = ";" if head else ""
        if isinstance(node, Function):
            self.function(node, f"{head}fn ")
        elif isinstance(node, If):
            self.emit(f"{head}if ({self.text(node.cond)}) {{")
            self.block(node.true_branch)
            self.emit("} else {")
            self.block(node.false_branch)
            self.emit("}")
        else:
            self.emit(f"{head}{{")
            self.block(node)
            self.emit("}")
        self.lines[-1] += end

    def text(self, e: Expr) -> str:
        """The expression on one line, operands by name."""
        name = self.names.get(e)
        if name is not None:
            return name
        if isinstance(e, Var):
            return self.var_name(e)
        if isinstance(e, Constant):
            return self.constant(e)
        if isinstance(e, GlobalVar):
            return f"@{e.name_hint}"
        if isinstance(e, Op):
            return e.name
        if isinstance(e, TupleGetItem):
            return f"{self.text(e.tuple_value)}.{e.index}"
        if isinstance(e, Tuple):
            return f"({', '.join([self.text(f) for f in e.fields])}{',' if len(e.fields) == 1 else ''})"
        if isinstance(e, Call):
            return self.call(e)
        inner = Printer(self.show_meta_data, self.types)
        inner.names, inner.taken = dict(self.names), self.taken
        inner.scope(e, "")
        return "\n".join(inner.lines)

    def call(self, e: Call) -> str:
        parts = [self.text(a) for a in e.args]
        if e.attrs is not None:
            for f in e.attrs._fields:
                value = getattr(e.attrs, f.name)
                if f.required or value != f.default:
                    parts.append(f"{f.name}={attr_text(value)}")
        found = getattr(e, "_checked_type", None) if self.types else None
        return f"{self.text(e.op)}({', '.join(parts)})" + (f" /* ty={type_text(found)} */" if found is not None else "")

    def constant(self, e: Constant) -> str:
        if e.is_scalar():
            return scalar_text(e.value)
        self.constants.append(e)
        shape = ", ".join(map(str, e.data.shape)) + ("," if e.data.ndim == 1 else "")
        index = len(self.constants) - 1
        name = f"meta[relay.Constant][{index}]"
        self.names[e] = name
        return f"{name} /* ty=Tensor[({shape}), {e.data.dtype.name}] */"

    def result(self) -> str:
        if self.show_meta_data and self.constants:
            self.lines.append("\n#[metadata]")
            for i, c in enumerate(self.constants):
                self.lines.append(f"meta[relay.Constant][{i}] = {np.array2string(c.value, threshold=64)}")
        return "\n".join(self.lines)


def astext(value: Expr | IRModule, show_meta_data: bool = False, types: bool = True) -> str:
    """The text of an expression, or of the relay functions of a module."""
    printer = Printer(show_meta_data, types)
    if isinstance(value, IRModule):
        functions: Iterable[tuple[GlobalVar, Any]] = value.functions.items()
        for i, (gvar, f) in enumerate(functions):
            if i:
                printer.lines.append("")
            if isinstance(f, Function):
                printer.function(f, f"def @{gvar.name_hint}")
            else:
                printer.lines.append(str(f))
    elif isinstance(value, Function):
        printer.function(value, "fn ")
    else:
        printer.indent = -1
        printer.block(value)
    return printer.result()


for _cls in (Call, Constant, Function, If, Let, Tuple, TupleGetItem):
    register_printer(_cls, astext)
register_printer(Var, lambda v: f"Var({v.name_hint}, ty={type_text(v.type_annotation)})")
register_printer(
    IRModule, lambda m: astext(m) if any(isinstance(f, Function) for f in m.functions.values()) else m.script()
)
for _type in (TensorType, TupleType, FuncType, IncompleteType):
    register_printer(_type, type_text)
install_astext(astext)
