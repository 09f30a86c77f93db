"""InferType: the type of every expression, by the type rules of the operator cards.

A type is a function of the (immutable) expression, so it is kept on the expression itself, and a second run over a
changed program only looks at what is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import (
    DataType,
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
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.functor import flow_children
from tilewright.relay.op.card import OpCard, TypeRuleError, argument_names, find_card
from tilewright.relay.op.relations import dims, may_equal, merge_dim
from tilewright.relay.printer import Printer, span_text, type_text
from tilewright.support.errors import DiagnosticError

MAX_FINDINGS = 16


def type_of(expr: Expr) -> Type | None:
    """The type found so far, or None."""
    return getattr(expr, "_checked_type", None)


def set_type(expr: Expr, t: Type) -> Type:
    """Note the type of an expression (only inference, and passes that know it for certain, do so)."""
    object.__setattr__(expr, "_checked_type", t)
    return t


class _Inference:
    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.findings: list[str] = []
        self.failed: set[Expr] = set()
        self.active: set[GlobalVar] = set()
        self.signatures: dict[GlobalVar, FuncType] = {}
        self.rules: dict[type, Any] = {
            Var: self.var,
            Constant: self.constant,
            Call: self.call,
            Tuple: self.tuple,
            TupleGetItem: self.item,
            Let: self.let,
            If: self.branch,
            Function: self.function,
            GlobalVar: self.global_var,
            Op: self.operator,
        }

    def visit(self, root: Expr) -> Type | None:
        """The type of `root`; None when it, or something under it, was found wrong."""
        stack = [root]
        while stack:
            node = stack[-1]
            if type_of(node) is not None or node in self.failed:
                stack.pop()
                continue
            pending = [
                c
                for c in flow_children(node)
                if type_of(c) is None and c not in self.failed and type(c) is not GlobalVar
            ]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            found = self.rules[type(node)](node)
            if found is None:
                self.failed.add(node)
            elif type(node) is not GlobalVar:
                set_type(node, found)
        return type_of(root) if type(root) is not GlobalVar else self.global_var(root)

    def report(self, expr: Expr, text: str) -> None:
        where = span_text(getattr(expr, "span", None))
        self.findings.append((f"{where}: " if where else "") + text)
        if len(self.findings) >= MAX_FINDINGS:
            self.finish()

    def finish(self) -> None:
        """Raise what was found."""
        if self.findings:
            count = len(self.findings)
            head = "" if count == 1 else f"type inference found {count} errors\n"
            raise DiagnosticError(head + "\n".join(self.findings))

    def var(self, v: Var) -> Type | None:
        if v.type_annotation is None or isinstance(v.type_annotation, IncompleteType):
            self.report(
                v, f"the type of %{v.name_hint} is not known. Give relay.var a shape and dtype, or a type annotation"
            )
            return None
        return v.type_annotation

    def constant(self, c: Constant) -> Type:
        return TensorType(c.data.shape, DataType(c.data.dtype.name))

    def operator(self, op: Op) -> Type:
        return FuncType((), TupleType(()))

    def tuple(self, t: Tuple) -> Type | None:
        fields = [found for f in t.fields if (found := type_of(f)) is not None]
        return TupleType(tuple(fields)) if len(fields) == len(t.fields) else None

    def item(self, e: TupleGetItem) -> Type | None:
        t = type_of(e.tuple_value)
        if t is None:
            return None
        if not isinstance(t, TupleType):
            self.report(e, f"element {e.index} is taken of {type_text(t)}, which is no tuple")
            return None
        if not 0 <= e.index < len(t.fields):
            self.report(e, f"element {e.index} is taken of a tuple of {len(t.fields)}: {type_text(t)}")
            return None
        return t.fields[e.index]

    def let(self, e: Let) -> Type | None:
        chain = [e]
        body: Expr = e
        while type(body) is Let:
            t = self.visit(body.value)
            if t is None:
                return None
            annotation = body.var.type_annotation
            if annotation is not None and unify(annotation, t, {}) is None:
                self.report(
                    body, f"%{body.var.name_hint} is declared {type_text(annotation)}, but its value is {type_text(t)}"
                )
                return None
            set_type(body.var, annotation if annotation is not None else t)
            chain.append(body)
            body = body.body
        return self.visit(body)

    def branch(self, e: If) -> Type | None:
        cond, a, b = self.visit(e.cond), self.visit(e.true_branch), self.visit(e.false_branch)
        if cond is None or a is None or b is None:
            return None
        if not (isinstance(cond, TensorType) and not cond.shape and cond.dtype == "bool"):
            self.report(e, f"the condition of an if must be a bool scalar, but is {type_text(cond)}")
            return None
        both = unify(a, b, {})
        if both is None:
            self.report(e, f"the branches of an if must have one type, but are {type_text(a)} and {type_text(b)}")
        return both

    def function(self, f: Function) -> Type | None:
        for p in f.params:
            if self.visit(p) is None:
                return None
        body = self.visit(f.body)
        if body is None:
            return None
        if (
            f.ret_type is not None
            and not isinstance(f.ret_type, IncompleteType)
            and unify(f.ret_type, body, {}) is None
        ):
            self.report(
                f, f"the function is declared to return {type_text(f.ret_type)}, but its body is {type_text(body)}"
            )
            return None
        return FuncType(tuple([p.checked_type for p in f.params]), body, f.type_params)  # type: ignore[arg-type]

    def global_var(self, g: GlobalVar) -> Type | None:
        found = self.signatures.get(g)
        if found is not None:
            return found
        if self.mod is None or g not in self.mod.functions:
            self.report(g, f"@{g.name_hint} is called, but the module has no such function")
            return None
        f = self.mod.functions[g]
        if not isinstance(f, Function):
            return type_of(f)
        if g in self.active:
            if f.ret_type is None:
                self.report(f, f"@{g.name_hint} calls itself and needs a declared result type (ret_type)")
                return None
            declared: list[Any] = [p.type_annotation for p in f.params]
            return FuncType(tuple(declared), f.ret_type, f.type_params)  # type: ignore[arg-type]
        self.active.add(g)
        t = self.visit(f)
        self.active.discard(g)
        if isinstance(t, FuncType):
            self.signatures[g] = t
        return t

    def call(self, e: Call) -> Type | None:
        types = [type_of(a) if type(a) is not GlobalVar else self.global_var(a) for a in e.args]
        if None in [t and 1 for t in types]:
            return None
        if type(e.op) is Op:
            return self.apply_card(e, types)
        callee = self.global_var(e.op) if type(e.op) is GlobalVar else type_of(e.op)
        if callee is None:
            return None
        if not isinstance(callee, FuncType):
            self.report(e, f"{type_text(callee)} is called, but it is no function")
            return None
        return self.apply_function(e, callee, types)

    def apply_function(self, e: Call, callee: FuncType, types: Sequence[Any]) -> Type | None:
        if len(callee.arg_types) != len(types):
            self.report(e, f"a function of {len(callee.arg_types)} arguments is called with {len(types)}")
            return None
        bound: dict[TypeVar, Type] = {}
        for i, (want, got) in enumerate(zip(callee.arg_types, types, strict=True)):
            if unify(want, got, bound) is None:
                self.report(
                    e, f"argument {i} of the called function must be {type_text(want)}, but is {type_text(got)}"
                )
                return None
        return substitute_types(callee.ret_type, bound)

    def apply_card(self, e: Call, types: Sequence[Any]) -> Type | None:
        op: Any = e.op
        card = e.attrs if isinstance(e.attrs, OpCard) else find_card(op.name)()
        names, variadic = argument_names(type(card))
        if not variadic and len(types) > len(names):
            self.report(
                e, f"{op.name} takes {len(names)} arguments ({', '.join(names)}), but is called with {len(types)}"
            )
            return None
        try:
            return card.infer(*types)
        except TypeRuleError as error:
            self.report(e, rule_text(e, names, types, error))
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            # A rule that does not guard itself: still say where.
            self.report(
                e, f"{op.name}: its type rule failed with {type(error).__name__}: {error}\n{call_text(e, names, types)}"
            )
        return None


def rule_text(e: Call, names: Sequence[str], types: Sequence[Type], error: TypeRuleError) -> str:
    """Operator, argument, rule, finding, and the call with its arguments' types."""
    arg = ""
    if error.arg is not None and error.arg < len(types):
        arg = f", argument {error.arg}" + (f" ({names[error.arg]})" if error.arg < len(names) else "")
    remedy = f"\n  {error.remedy}" if error.remedy else ""
    return f"{e.op.name}{arg}: {error.rule}, but {error.finding}{remedy}\n{call_text(e, names, types)}"  # type: ignore[attr-defined]


def call_text(e: Call, names: Sequence[str], types: Sequence[Type]) -> str:
    """The call on one line, then a line per argument with its type."""
    printer = Printer(types=False)
    for i, a in enumerate(e.args):
        if not isinstance(a, (Var, Constant)):
            printer.names[a] = f"%{i}"
    lines = [f"  in {printer.call(e)}"]
    for i, t in enumerate(types):
        name = names[i] if i < len(names) else f"argument {i}"
        lines.append(f"     {name}: {type_text(t)}")
    return "\n".join(lines)


def unify(want: Type, got: Type, bound: dict[TypeVar, Type]) -> Type | None:
    """The type that is both: symbolic dimensions agree with any number; None when the types exclude each other."""
    if isinstance(want, TypeVar):
        if want in bound:
            return unify(bound[want], got, bound) if bound[want] is not want else got
        bound[want] = got
        return got
    if want is got or isinstance(want, IncompleteType):
        return got
    if isinstance(want, TensorType) and isinstance(got, TensorType):
        if want.dtype != got.dtype or len(want.shape) != len(got.shape):
            return None
        pairs = list(zip(dims(want), dims(got), strict=True))
        if not all([may_equal(a, b) for a, b in pairs]):
            return None
        merged: list[Any] = [merge_dim(a, b) for a, b in pairs]
        return TensorType(tuple(merged), want.dtype)
    if isinstance(want, TupleType) and isinstance(got, TupleType) and len(want.fields) == len(got.fields):
        fields = unify_all(want.fields, got.fields, bound)
        return None if fields is None else TupleType(fields)
    if isinstance(want, FuncType) and isinstance(got, FuncType) and len(want.arg_types) == len(got.arg_types):
        args = unify_all(want.arg_types, got.arg_types, bound)
        ret = unify(want.ret_type, got.ret_type, bound)
        return None if ret is None or args is None else FuncType(args, ret)
    return got if want == got else None


def unify_all(want: Sequence[Type], got: Sequence[Type], bound: dict[TypeVar, Type]) -> tuple[Type, ...] | None:
    """`unify` of each pair; None when one pair excludes each other."""
    found = [both for a, b in zip(want, got, strict=True) if (both := unify(a, b, bound)) is not None]
    return tuple(found) if len(found) == len(want) else None


def substitute_types(t: Type, bound: dict[TypeVar, Type]) -> Type:
    """`t` with type variables replaced."""
    if not bound:
        return t
    if isinstance(t, TypeVar):
        return bound.get(t, t)
    if isinstance(t, TupleType):
        return TupleType(tuple([substitute_types(f, bound) for f in t.fields]))
    if isinstance(t, FuncType):
        return FuncType(tuple([substitute_types(a, bound) for a in t.arg_types]), substitute_types(t.ret_type, bound))
    return t


def infer_types(expr: Expr, mod: IRModule | None = None) -> Type:
    """Type of one expression; everything under it gets its `checked_type`. Raises DiagnosticError."""
    inference = _Inference(mod)
    found = inference.visit(expr)
    inference.finish()
    assert found is not None
    return found


def infer_module(mod: IRModule) -> IRModule:
    """Types of all functions; results get their `ret_type`. Raises DiagnosticError with all independent findings."""
    inference = _Inference(mod)
    functions: dict[GlobalVar, Any] = {}
    for gvar, f in mod.functions.items():
        if isinstance(f, Function):
            t = inference.global_var(gvar)
            if isinstance(t, FuncType) and f.ret_type is None:
                f = f.replace(ret_type=t.ret_type)
                set_type(f, t)
        functions[gvar] = f
    inference.finish()
    return mod.with_functions(functions)


@module_pass(opt_level=0, name="InferType", gives=("types",))
class InferType:
    """Infer the type of every expression of a module."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return infer_module(mod)
