"""AnnotateTarget: puts each call into a region of the first compiler that supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import BaseFunc, GlobalVar, IRModule, Op
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.adt import Match
from tilewright.relay.expr import Call, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem
from tilewright.relay.functor import ExprMutator
from tilewright.relay.transform.byoc.annotations import (
    DEFAULT,
    begin,
    compiler_of,
    end,
    inner,
    is_begin,
    is_composite,
    is_end,
    own_functions,
)
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError


class _Annotator(ExprMutator):
    """Rewrites one function. `compilers` has rewritten expressions whose region is still open, with the region's compiler; the end is
    inserted at their uses. Regions do not extend beyond a scope: branches, bindings and bodies."""

    def __init__(self, targets: Sequence[str], non_call_ops: bool) -> None:
        super().__init__()
        self.targets, self.non_call_ops = targets, non_call_ops
        self.compilers: dict[Expr, str] = {}

    def closed(self, e: Expr) -> Expr:
        """The rewritten expression, outside of its region."""
        new: Expr = self.visit(e)
        return end(new, self.compilers[new]) if new in self.compilers else new

    def entered(self, e: Expr, compiler: str) -> Expr:
        """The rewritten expression as an input of a region of `compiler`."""
        return begin(self.closed(e), compiler)

    def visit_call(self, call: Call) -> Expr:
        if is_begin(call):
            # Borders of an earlier run are inserted anew. The operator inside tells its compiler.
            return self.visit(inner(call))
        if is_end(call):
            new: Expr = self.visit(inner(call))
            if type(new) is not Call:
                self.compilers.setdefault(new, compiler_of(call))
            return new
        if type(call.op) is not Op and not is_composite(call.op):
            args = tuple([self.closed(a) for a in call.args])
            return call.replace(op=self.visit(call.op), args=args)
        compiler = self.choose(call)
        made = call.replace(args=tuple([self.entered(a, compiler) for a in call.args]))
        if made is call:
            # A call without arguments is copied, since the end mark must distinguish it from other uses of the same call.
            made = Call(call.op, call.args, call.attrs, call.given_types, call.span)
        self.compilers[made] = compiler
        return made

    def choose(self, call: Call) -> str:
        """The first compiler that supports a call. The compiler of an earlier run is kept."""
        if call.args and is_begin(call.args[0]):
            before = compiler_of(call.args[0])
            if before != DEFAULT:
                return before
        if isinstance(call.op, Function):
            owner = str(call.op.attrs["Composite"]).partition(".")[0]
            return owner if owner in self.targets else DEFAULT
        assert isinstance(call.op, Op)
        for target in self.targets:
            takes = call.op.get_attr(f"target.{target}")
            if takes is None:
                continue
            if not callable(takes):
                raise TVMError(
                    f"AnnotateTarget: the attribute target.{target} of {call.op.name} must be a function from a call to"
                    f" a bool, but is {type(takes).__name__}"
                )
            if takes(call):
                return target
        return DEFAULT

    def plain(self, e: Expr, parts: Sequence[Expr]) -> str | None:
        """The compiler of an expression that is not a call: the one of all its parts; "default" if they differ, None without the option."""
        if not self.non_call_ops:
            return None
        known = {self.compilers[p] for p in [self.visit(p) for p in parts] if p in self.compilers}
        return known.pop() if len(known) == 1 else DEFAULT

    def visit_tuple(self, tup: Tuple) -> Expr:
        compiler = self.plain(tup, tup.fields)
        if compiler is None:
            return tup.replace(fields=tuple([self.closed(f) for f in tup.fields]))
        made = Tuple(tuple([self.entered(f, compiler) for f in tup.fields]), tup.span)
        self.compilers[made] = compiler
        return made

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        compiler = self.plain(op, [op.tuple_value])
        if compiler is None:
            return op.replace(tuple_value=self.closed(op.tuple_value))
        made = TupleGetItem(self.entered(op.tuple_value, compiler), op.index, op.span)
        self.compilers[made] = compiler
        return made

    def visit_let(self, let: Let) -> Expr:
        chain = [(node, self.closed(node.value)) for node in self.chain_of(let)]
        result = self.closed(chain[-1][0].body)
        for node, value in reversed(chain):
            result = self.memo_map[node] = node.replace(value=value, body=result)
        return result

    def visit_if(self, ite: If) -> Expr:
        return ite.replace(
            cond=self.closed(ite.cond),
            true_branch=self.closed(ite.true_branch),
            false_branch=self.closed(ite.false_branch),
        )

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive or is_composite(fn) else fn.replace(body=self.closed(fn.body))

    def visit_match(self, m: Match) -> Expr:
        clauses = tuple([c.replace(rhs=self.closed(c.rhs)) for c in m.clauses])
        return Match(self.closed(m.data), clauses, m.complete, m.span)

    def visit_ref_create(self, r: RefCreate) -> Expr:
        return r.replace(value=self.closed(r.value))

    def visit_ref_read(self, r: RefRead) -> Expr:
        return r.replace(ref=self.closed(r.ref))

    def visit_ref_write(self, r: RefWrite) -> Expr:
        return r.replace(ref=self.closed(r.ref), value=self.closed(r.value))


def _target_names(targets: Any) -> list[str]:
    names = [targets] if isinstance(targets, str) else list(targets)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TVMError(
                f'AnnotateTarget takes the name of a compiler, or a list of names, such as "dnnl"; it was given {name!r}'
            )
    return names


def AnnotateTarget(targets: str | Sequence[str], include_non_call_ops: bool = True) -> Pass:
    """Put every operator call between `annotation.compiler_begin` and `compiler_end` of the compiler that supports it.

    targets: the names of compilers, the preferred first. An operator is supported if its attribute "target.<name>", a
    function of the call, is true (see `tvm.ir.register_op_attr`); a function of MergeComposite if its name begins
    with "<name>.". Other calls belong to the compiler "default". include_non_call_ops: tuples and their elements join the
    region of their operands.
    """
    names = _target_names(targets)

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        with deep_recursion():
            changed: dict[GlobalVar, BaseFunc] = {
                g: f.replace(body=_Annotator(names, include_non_call_ops).closed(f.body))
                for g, f in own_functions(mod).items()
            }
        return infer_module(mod.with_functions({**mod.functions, **changed}))

    return Pass(PassInfo(0, "AnnotateTarget"), run)
