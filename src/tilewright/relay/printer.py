"""Relay as text: `def @main(%x: Tensor[(1, 3), float32]) { ... }`, every call on a numbered line of its own.

`relay.parse` reads the text back; what stands in no text (arrays, nodes in attributes) is in the metadata section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from tilewright import tir
from tilewright.ir import (
    FuncType,
    GlobalTypeVar,
    GlobalVar,
    IncompleteType,
    IntImm,
    IRModule,
    Op,
    PrimExpr,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from tilewright.ir.expr import install_astext
from tilewright.ir.type_parts import parts
from tilewright.node import Node, deep_recursion, register_printer, save_json
from tilewright.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    TypeData,
)
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.functor import flow_children, free_vars, users
from tilewright.relay.texts import (
    CALLED,
    INFIX,
    NAME,
    SUFFIXES,
    attr_text,
    comma,
    hint_text,
    name_text,
    scalar_text,
    type_text,
)
from tilewright.tir import Any as AnyDim
from tilewright.tir import PrimFunc, SizeVar
from tilewright.tir import Var as DimVar

VERSION = '#[version = "0.0.5"]'
DEEPEST = 60
"""Levels that are indented; what is nested deeper is not moved further."""


class Printer:
    """Prints functions; `types` appends the inferred type of every call as a comment, `annotate` what it returns."""

    def __init__(
        self, show_meta_data: bool = False, types: bool = True, annotate: Callable[[Expr], str] | None = None
    ) -> None:
        self.show_meta_data, self.types, self.annotate = show_meta_data, types, annotate
        self.lines: list[str] = []
        self.temps = 0
        self.indent = 0
        self.names: dict[Expr, str] = {}
        self.var_names: dict[Var, str] = {}
        self.taken: set[str] = set()
        self.meta: dict[str, list[Any]] = {}
        self.dim_names: dict[DimVar, str] = {}
        self.shared: set[Expr] = set()
        self.holes: dict[IncompleteType, str] = {}
        """Names of the unknown types that stand in several places."""
        self.places: dict[Expr, tuple[int, int, int]] = {}
        """Line, first and last column of every expression that has a line."""

    def emit_expr(self, head: str, e: Expr, end: str) -> None:
        """A line with an expression in it, whose place is noted."""
        self.emit(f"{head}{self.text(e)}{end}")
        line = self.lines[-1]
        start = len(line) - len(line.lstrip(" ")) + len(head)
        # A variable's place is where it is bound.
        self.places.setdefault(e, (len(self.lines) - 1, start, len(line) - len(end)))

    def _last_line(self, end: str) -> tuple[int, int, int]:
        """The place of what stands in the line just printed, without `end`."""
        line = self.lines[-1]
        return len(self.lines) - 1, len(line) - len(line.lstrip(" ")), len(line.removesuffix(end))

    def _place_items(self, head: str, items: Iterable[Expr], texts: Iterable[str]) -> None:
        """Note the places of items that stand between commas after `head`, in the line that comes next."""
        at = 2 * min(self.indent, DEEPEST) + len(head)
        for item, text in zip(items, texts, strict=True):
            self.places[item] = (len(self.lines), at, at + len(text))
            at += len(text) + len(", ")

    def emit(self, text: str) -> None:
        # Deep programs would be mostly blanks, as many as the square of their depth.
        self.lines.append("  " * min(self.indent, DEEPEST) + text)

    def fresh(self, name: str) -> str:
        base, count = name, 0
        while name in self.taken:
            count += 1
            name = f"{base[:-1]}{count}{base[-1]}" if base.endswith('"') else f"{base}{count}"
        self.taken.add(name)
        return name

    def var_name(self, var: Var) -> str:
        name = self.var_names.get(var)
        if name is None:
            name = self.var_names[var] = self.fresh("%" + hint_text(var.name_hint))
        return name

    def forget_variables(self) -> None:
        """The next function's variables have names of their own."""
        self.var_names.clear()
        self.taken = {name for name in self.taken if not name.startswith("%")}

    def type(self, t: Type | None) -> str:
        """An annotation: symbolic dimensions say at their first place what they are (`n: size`, `m: int64`)."""
        return type_text(t, self.dim, lambda h: self.holes.get(h, "?"))

    def dim(self, d: Any) -> str:
        if isinstance(d, IntImm):
            return str(d.value) + ("" if d.dtype == "int32" else SUFFIXES.get(d.dtype, ""))
        if isinstance(d, DimVar):
            known = self.dim_names.get(d)
            if known is not None:
                return known
            name = self.fresh(
                re.sub(r"\W", "_", d.name) if NAME.fullmatch(d.name[:1]) else "n" + re.sub(r"\W", "_", d.name)
            )
            self.dim_names[d] = name
            kind = ("size" if d.dtype == "int32" else f"size {d.dtype}") if isinstance(d, SizeVar) else str(d.dtype)
            return name if kind == "int32" else f"{name}: {kind}"
        if type(d) in INFIX:
            return f"({self.dim(d.a)} {INFIX[type(d)]} {self.dim(d.b)})"
        if type(d) in CALLED:
            return f"{CALLED[type(d)]}({self.dim(d.a)}, {self.dim(d.b)})"
        if isinstance(d, tir.Select):
            return f"select({self.dim(d.condition)}, {self.dim(d.true_value)}, {self.dim(d.false_value)})"
        if isinstance(d, tir.Not):
            return f"not({self.dim(d.a)})"
        if isinstance(d, tir.Cast):
            return f"cast({self.dim(d.value)}, {d.dtype})"
        return "?" if isinstance(d, AnyDim) else self.meta_text(d)

    def meta_text(self, value: Any) -> str:
        """A reference into the metadata section, where `value` stands as JSON."""
        key = value.type_key if isinstance(value, Node) else type(value).__name__
        entries = self.meta.setdefault(key, [])
        for i, known in enumerate(entries):
            if known is value:
                return f"meta[{key}][{i}]"
        entries.append(value)
        return f"meta[{key}][{len(entries) - 1}]"

    def attr(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(self.attr, value))}]"
        if value is None or isinstance(value, (str, float, int)):
            return attr_text(value)
        if isinstance(value, IntImm) and value.dtype == "int32":
            return attr_text(int(value.value))
        # A size that is an expression names variables of the program's types, so it stands in the text.
        return f"dim({self.dim(value)})" if isinstance(value, PrimExpr) else self.meta_text(value)

    def function(self, f: Function, head: str) -> None:
        """A function over several lines, starting with `head` ("def @main" or "fn ")."""
        generic = f"[{', '.join(map(type_text, f.type_params))}]" if f.type_params else ""
        if generic and head.endswith("fn "):
            generic += " "
        params = []
        for p in f.params:
            # Callers give the arguments of a module's function by name.
            if head.startswith("def ") and p.name_hint and p not in self.var_names:
                self.var_names[p] = self.fresh("%" + name_text(p.name_hint))
            params.append(
                self.var_name(p) + (f": {self.type(p.type_annotation)}" if p.type_annotation is not None else "")
            )
        self._place_items(f"{head}{generic}(", f.params, params)
        params += [f"{name_text(k)}={self.attr(v)}" for k, v in f.attrs.items()]
        ret = f" -> {self.type(f.ret_type)}" if f.ret_type is not None else ""
        self.emit(f"{head}{generic}({', '.join(params)}){ret} {{")
        self.places[f] = self._last_line(" {")
        self.block(f.body)
        self.emit("}")

    def type_data(self, t: TypeData) -> None:
        """`type List[A] { Cons(A, List[A]), Nil, }`."""
        generic = f"[{', '.join([v.name_hint for v in t.type_vars])}]" if t.type_vars else ""
        self.emit(f"type {t.header.name_hint}{generic} {{")
        for c in t.constructors:
            inputs = f"({', '.join(map(self.type, c.inputs))})" if c.inputs else ""
            self.emit(f"  {c.name_hint}{inputs},")
        self.emit("}")

    def block(self, body: Expr, opened: Expr | None = None) -> None:
        """The statements and the result of one scope; `opened` is a block whose braces stand there already."""
        self.indent += 1
        # What several scopes use is a block of its own, with a number.
        while isinstance(body, Let) and (body is opened or body not in self.shared):
            self.flow(body.value, bound=body.value not in self.shared)
            note = f": {self.type(body.var.type_annotation)}" if body.var.type_annotation is not None else ""
            head = f"let {self.var_name(body.var)}{note} = "
            self._place_items("let ", [body.var], [head[len("let ") : -len(" = ")]])
            at = len(self.lines)
            if isinstance(body.value, (Function, If, Let, Match)) and body.value not in self.names:
                self.scope(body.value, head, ";")
            else:
                self.emit_expr(head, body.value, ";")
            line = self.lines[at]
            self.places[body] = (at, len(line) - len(line.lstrip(" ")), len(line.removesuffix(";").removesuffix(" {")))
            body = body.body
        self.flow(body, bound=body not in self.shared)
        if isinstance(body, (Function, If, Match)) and body not in self.names:
            self.scope(body, "", "")
        else:
            self.emit_expr("", body, "")
        self.indent -= 1

    def flow(self, root: Expr, bound: bool) -> None:
        """A numbered line for every call, tuple and scope that `root` needs, operands first."""
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self.names or isinstance(node, (Var, Constant, GlobalVar, Op, Constructor)):
                continue
            if not ready:
                stack.append((node, True))
                stack += [(c, False) for c in reversed(flow_children(node))]
                if isinstance(node, If):
                    stack.append((node.cond, False))
                elif isinstance(node, Match):
                    stack.append((node.data, False))
            elif not (node is root and bound) and not isinstance(node, TupleGetItem):
                name = f"%{self.temps}"
                self.temps += 1
                if isinstance(node, (Function, If, Let, Match)):
                    self.scope(node, f"{name} = ", ";")
                else:
                    self.emit_expr(f"{name} = ", node, ";")
                self.names[node] = name

    def scope(self, node: Expr, head: str, end: str) -> None:
        """A function, if, match or block over several lines."""
        at = len(self.lines)
        self._scope(node, head, end)
        indent = len(self.lines[at]) - len(self.lines[at].lstrip(" "))
        self.places[node] = (at, indent + len(head), len(self.lines[at].removesuffix(" {")))

    def _scope(self, node: Expr, head: str, end: str) -> None:
        if isinstance(node, Function):
            self.function(node, f"{head}fn ")
        elif isinstance(node, If):
            self.emit(f"{head}if ({self.text(node.cond)}) {{")
            self.block(node.true_branch)
            self.emit("} else {")
            self.block(node.false_branch)
            self.emit("}")
        elif isinstance(node, Match):
            self.emit(f"{head}match{'' if node.complete else '?'} ({self.text(node.data)}) {{")
            self.indent += 1
            for c in node.clauses:
                self.emit(f"{self.pattern(c.lhs)} => {{")
                self.block(c.rhs)
                self.emit("},")
            self.indent -= 1
            self.emit("}")
        else:
            self.emit(f"{head}{{")
            self.block(node, opened=node)
            self.emit("}")
        self.lines[-1] += end

    def pattern(self, p: Pattern) -> str:
        if isinstance(p, PatternVar):
            note = f": {self.type(p.var.type_annotation)}" if p.var.type_annotation is not None else ""
            return self.var_name(p.var) + note
        if isinstance(p, PatternTuple):
            return f"({comma(map(self.pattern, p.patterns))})"
        if isinstance(p, PatternConstructor):
            inner = f"({', '.join(map(self.pattern, p.patterns))})" if p.patterns else ""
            return p.constructor.name_hint + inner
        return "_"

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
            return f"@{name_text(e.name_hint)}"
        if isinstance(e, Op):
            return e.name
        if isinstance(e, Constructor):
            return e.name_hint
        if isinstance(e, TupleGetItem):
            return f"{self.text(e.tuple_value)}.{e.index}"
        if isinstance(e, Tuple):
            return f"({comma(map(self.text, e.fields))})"
        if isinstance(e, Call):
            return self.call(e)
        if isinstance(e, RefCreate):
            return f"ref({self.text(e.value)})"
        if isinstance(e, RefRead):
            return f"ref_read({self.text(e.ref)})"
        if isinstance(e, RefWrite):
            return f"ref_write({self.text(e.ref)}, {self.text(e.value)})"
        # A scope among the operands of what is printed alone, such as one call in an error.
        kind = {Function: "fn", If: "if", Match: "match"}.get(type(e), "let")
        return f"{kind} {{...}}"

    def call(self, e: Call) -> str:
        parts = [self.text(a) for a in e.args]
        if e.attrs is not None:
            for f in e.attrs._fields:
                value = getattr(e.attrs, f.name)
                if f.required or value != f.default:
                    parts.append(f"{f.name}={self.attr(value)}")
        found = getattr(e, "_checked_type", None) if self.types else None
        given = f"[{', '.join(map(self.type, e.given_types))}]" if e.given_types else ""
        note = f" /* ty={type_text(found)} */" if found is not None else ""
        if self.annotate is not None:
            # A comment must neither end the comment that it stands in nor begin one: comments nest.
            remark = str(self.annotate(e) or "").replace("*/", "* /").replace("/*", "/ *")
            note = f" /* {remark} */" if remark else ""
        return f"{self.text(e.op)}{given}({', '.join(parts)}){note}"

    def constant(self, e: Constant) -> str:
        if e.is_scalar():
            short = scalar_text(e.value)
            if short is not None:
                return short
        name = self.names[e] = f"{self.meta_text(e)}"
        return f"{name} /* ty=Tensor[({comma(map(str, e.data.shape))}), {e.data.dtype.name}] */"

    def result(self) -> str:
        if self.show_meta_data and self.meta:
            entries = {k: [json.loads(save_json(v)) for v in values] for k, values in self.meta.items()}
            rows = [
                f"  {json.dumps(k)}: [\n" + ",\n".join([f"    {json.dumps(v)}" for v in values]) + "\n  ]"
                for k, values in entries.items()
            ]
            self.lines.append("\n#[metadata]\n{\n" + ",\n".join(rows) + "\n}")
        return "\n".join(self.lines)


def plain_text(value: Expr | IRModule, show_meta_data: bool = False, types: bool = True) -> str:
    """The text without the line that says its version."""
    return _print(value, Printer(show_meta_data, types))


def _print(value: Expr | IRModule, printer: Printer, declare: bool = False) -> str:
    with deep_recursion():
        return _program(value, printer, declare)


def _program(value: Expr | IRModule, printer: Printer, declare: bool) -> str:
    roots = value.functions.values() if isinstance(value, IRModule) else [value]
    # What is used twice gets a number even where a let or a result names it, so that its sharing survives.
    relay_roots = [f for f in roots if not isinstance(f, PrimFunc)]
    used = users(relay_roots)
    printer.shared = {e for e, by in used.items() if len(by) > 1}
    printer.holes = _shared_holes({**dict.fromkeys(relay_roots), **used})
    if isinstance(value, IRModule):
        for t in value.type_definitions.values():
            if isinstance(t, TypeData):
                printer.type_data(t)
            else:
                printer.lines.append(str(t))
            printer.lines.append("")
        for i, (gvar, f) in enumerate(value.functions.items()):
            if i:
                printer.lines.append("")
            if isinstance(f, Function):
                printer.function(f, f"def @{name_text(gvar.name_hint)}")
                printer.forget_variables()
            elif printer.show_meta_data and declare:
                printer.lines.append(f"extern @{name_text(gvar.name_hint)} = {printer.meta_text(f)};")
            else:
                printer.lines.append(str(f))
        if value.attrs and declare:
            printer.lines.append(f"\nattributes {printer.meta_text(dict(value.attrs))};")
        return printer.result()
    if declare:
        for v in free_vars(value):
            note = f": {printer.type(v.type_annotation)}" if v.type_annotation is not None else ""
            printer.lines.append(f"free_var {printer.var_name(v)}{note};")
    printer.indent = -1
    if isinstance(value, Function):
        printer.indent = 0
        printer.function(value, "fn ")
    else:
        printer.block(value)
    return printer.result()


def _shared_holes(exprs: Iterable[Expr]) -> dict[IncompleteType, str]:
    """A name, `?0`, for each unknown type that several annotations have in common: it is one type, whichever it will be."""
    counts: dict[IncompleteType, int] = {}
    stack: list[Type] = []
    for e in exprs:
        if isinstance(e, Var):
            stack += [e.type_annotation] if e.type_annotation is not None else []
        elif isinstance(e, Function):
            stack += [e.ret_type] if e.ret_type is not None else []
        elif isinstance(e, Call):
            stack += e.given_types
        while stack:
            t = stack.pop()
            if isinstance(t, IncompleteType):
                counts[t] = counts.get(t, 0) + 1
            elif not isinstance(t, TensorType):
                stack += reversed(parts(t))
    return {h: f"?{i}" for i, h in enumerate([h for h, n in counts.items() if n > 1])}


def astext(
    obj: Expr | IRModule,
    show_meta_data: bool = True,
    annotate: Callable[[Expr], str] | None = None,
    types: bool = True,
) -> str:
    """The text of an expression, or of a module, that `relay.parse_expr` or `relay.parse` reads.

    `show_meta_data` appends what cannot stand in the text (arrays, nodes in attributes), without which a
    program that has such can be read by people only. `types` adds what was inferred as comments; with `annotate`
    the comment after a call is the result of that function ("": none).
    """
    if not isinstance(obj, (Expr, IRModule)):
        return repr(obj)
    return f"{VERSION}\n{_print(obj, Printer(show_meta_data, types, annotate), declare=True)}"


def pretty_print(obj: Any) -> str:
    """The text of a node without metadata and without the line that says its version."""
    return plain_text(obj) if isinstance(obj, (Expr, IRModule)) and not isinstance(obj, (GlobalVar, Op)) else repr(obj)


def text_and_metadata(value: Expr | IRModule) -> tuple[str, dict[str, list[Any]]]:
    """The text, and what its `meta[kind][index]` stand for: `relay.parse(text, init_meta_table=...)` shares the
    arrays, where a metadata section would write out every one."""
    printer = Printer()
    text = _print(value, printer, declare=True)
    return f"{VERSION}\n{text}", printer.meta


for _cls in (Call, Constant, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem):
    register_printer(_cls, plain_text)
register_printer(Var, lambda v: f"Var({v.name_hint}, ty={type_text(v.type_annotation)})")
register_printer(Constructor, lambda c: c.name_hint)
register_printer(
    IRModule, lambda m: plain_text(m) if any(isinstance(f, Function) for f in m.functions.values()) else m.script()
)
for _type in (TensorType, TupleType, FuncType, IncompleteType, TypeCall, RefType, GlobalTypeVar, TypeVar):
    register_printer(_type, type_text)


def _type_data_text(t: TypeData) -> str:
    printer = Printer()
    printer.type_data(t)
    return printer.result()


register_printer(TypeData, _type_data_text)
install_astext(astext)
