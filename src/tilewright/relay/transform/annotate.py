"""Passes that only annotate: AnnotateSpans, CapturePostDfsIndexInSpans, LabelOps, AnnotateUsedMemory."""

from __future__ import annotations

from tilewright.ir import IntImm, IRModule, SourceName, Span, TensorType, TupleType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo, module_pass
from tilewright.node import structural_hash
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.functor import ExprMutator, children, post_order
from tilewright.relay.rewriting import typed_pass
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError


@module_pass(opt_level=0, name="AnnotateSpans")
class AnnotateSpans:
    """Print the module and parse it again, so that every expression has the line and column of its text. Errors of
    programs without source text then show a place.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        from tilewright.relay.parser import parse

        return parse(mod.astext(), "GeneratedSource")


class _Spans(ExprMutator):
    """Rebuilds every expression with the span that the table has for it."""

    def __init__(self, spans: dict[Expr, Span]) -> None:
        super().__init__()
        self.spans = spans

    def marked(self, old: Expr, new: Expr) -> Expr:
        span = self.spans.get(old)
        return new if span is None else new.replace(span=span)

    def visit_call(self, call: Call) -> Expr:
        return self.marked(call, super().visit_call(call))

    def visit_constant(self, const: Constant) -> Expr:
        return self.marked(const, const)

    def visit_tuple(self, tup: Tuple) -> Expr:
        return self.marked(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        return self.marked(op, super().visit_tuple_getitem(op))

    def visit_if(self, ite: If) -> Expr:
        return self.marked(ite, super().visit_if(ite))

    def visit_function(self, fn: Function) -> Expr:
        return self.marked(fn, super().visit_function(fn))


def _dominators(order: list[Expr], index: dict[Expr, int]) -> dict[int, int]:
    """The dominator of each index in post-order: the index of the expression through which all its uses lead; -1 for the last."""
    parent: dict[int, int] = {len(order) - 1: -1}
    for i in range(len(order) - 1, -1, -1):
        for child in children(order[i]):
            c = index[child]
            if c not in parent:
                parent[c] = i
                continue
            a, b = parent[c], i
            while a != b:
                # Users have higher indices than their operands, so the lower index climbs.
                if a < b:
                    a = parent[a]
                else:
                    b = parent[b]
            parent[c] = a
    return parent


def CapturePostDfsIndexInSpans() -> Pass:
    """Name the source of each expression's span "index:<its number in post-order>:<the number of its dominator>"."""

    def run(func: Function, mod: IRModule) -> Function:
        order = list(post_order(func))
        index = {e: i for i, e in enumerate(order)}
        above = _dominators(order, index)
        spans = {
            e: Span(SourceName(f"index:{i}:{above.get(i, -1)}"), 0, 0, 0, 0)
            for e, i in index.items()
            if not isinstance(e, (Var, Let))
        }
        return _Spans(spans).rewritten_function(func)

    return typed_pass("CapturePostDfsIndexInSpans", 0, run)


class _Labels(ExprMutator):
    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        if not isinstance(new, Function) or not new.is_primitive:
            return new
        return new.with_attr("hash", f"{structural_hash(new):016x}")


def LabelOps() -> Pass:
    """Give primitive functions the attribute "hash". Equal functions have equal hashes, in every process."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        functions = {
            g: _Labels().rewritten_function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()
        }
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(1, "LabelOps"), run)


def _bytes(t: Type) -> int:
    if isinstance(t, TupleType):
        return sum([_bytes(f) for f in t.fields])
    if not isinstance(t, TensorType):
        return 0
    size = t.dtype.bytes
    for d in t.shape:
        if not isinstance(d, IntImm):
            raise TVMError(f"AnnotateUsedMemory counts bytes of fixed sizes only, but {t} has a dynamic dimension")
        size *= d.value
    return size


def _used_memory(func: Function) -> Function:
    """The function with "used_memory" on the primitive functions that it calls in its lets: the bytes that live before, and those
    during the call."""
    chain: list[Let] = []
    body: Expr = func.body
    while isinstance(body, Let):
        chain.append(body)
        body = body.body
    last: dict[Expr, int] = {}
    for step, let in enumerate(chain):
        for e in post_order(let.value):
            if isinstance(e, Var):
                last[e] = step
    for e in post_order(body):
        if isinstance(e, Var):
            last[e] = len(chain)
    live = {p: _bytes(p.checked_type) for p in func.params if p in last}
    result: list[tuple[Let, Expr]] = []
    for step, let in enumerate(chain):
        live[let.var] = _bytes(let.value.checked_type)
        value = let.value
        if isinstance(value, Call) and isinstance(value.op, Function) and value.op.is_primitive:
            callee = value.op.with_attr("used_memory", (sum(live.values()),))
            value = Call(callee, value.args, value.attrs, value.given_types, value.span)
        result.append((let, value))
        live = {v: size for v, size in live.items() if last.get(v, -1) > step}
    for let, value in reversed(result):
        body = let.replace(value=value, body=body)
    return func.replace(body=body)


@module_pass(opt_level=0, name="AnnotateUsedMemory")
class AnnotateUsedMemory:
    """Give the primitive functions that main calls the attribute "used_memory": the bytes of all tensors that are live
    during the call, with operands and result. Main must be in A-normal form after FuseOps, with known shapes; otherwise
    raises TVMError.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        functions = {
            g: _used_memory(f) if isinstance(f, Function) and not f.is_primitive else f
            for g, f in mod.functions.items()
        }
        return infer_module(mod.with_functions(functions))
