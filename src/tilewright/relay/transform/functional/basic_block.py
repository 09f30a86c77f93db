"""ToBasicBlockNormalForm: let-binds expressions that several scopes use in the scope around them. Within a scope, graphs stay."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.adt import Match
from tilewright.relay.analysis.scopes import LET_BODY, Scopes
from tilewright.relay.expr import Call, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from tilewright.relay.functor import ExprMutator, lets_around


class _Blocks(ExprMutator):
    """Adds lets for lifted expressions at the start of their scope."""

    def __init__(self, scopes: Scopes) -> None:
        super().__init__()
        self.scopes = scopes
        self.lets: dict[int, list[tuple[Var, Expr]]] = {}
        self.count = 0

    def bound(self, old: Expr, new: Expr) -> Expr:
        if old not in self.scopes.lifted:
            return new
        v = Var(f"x{self.count}")
        self.count += 1
        self.lets.setdefault(self.scopes.scope[old], []).append((v, new))
        return v

    def block(self, e: Expr, part: int, body: Expr) -> Expr:
        """A part of `e` that is a scope, with its lets."""
        return self.within(self.scopes.inner[e, part], self.visit(body))

    def within(self, scope: int, body: Expr) -> Expr:
        return lets_around(self.lets.pop(scope, []), body)

    def visit_let(self, let: Let) -> Expr:
        chain = [(node, self.visit(node.value)) for node in self.chain_of(let)]
        new: Expr = self.visit(chain[-1][0].body)
        for node, value in reversed(chain):
            new = node.replace(value=value, body=self.within(self.scopes.inner[node, LET_BODY], new))
            self.memo_map[node] = new
        return new

    def visit_call(self, call: Call) -> Expr:
        return self.bound(call, super().visit_call(call))

    def visit_tuple(self, tup: Tuple) -> Expr:
        return self.bound(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        return self.bound(op, super().visit_tuple_getitem(op))

    def visit_ref_create(self, r: RefCreate) -> Expr:
        return self.bound(r, super().visit_ref_create(r))

    def visit_ref_read(self, r: RefRead) -> Expr:
        return self.bound(r, super().visit_ref_read(r))

    def visit_ref_write(self, r: RefWrite) -> Expr:
        return self.bound(r, super().visit_ref_write(r))

    def visit_if(self, ite: If) -> Expr:
        cond = self.visit(ite.cond)
        new = ite.replace(
            cond=cond,
            true_branch=self.block(ite, 1, ite.true_branch),
            false_branch=self.block(ite, 2, ite.false_branch),
        )
        return self.bound(ite, new)

    def visit_match(self, m: Match) -> Expr:
        data = self.visit(m.data)
        clauses = tuple([c.replace(rhs=self.block(m, i + 1, c.rhs)) for i, c in enumerate(m.clauses)])
        return self.bound(m, Match(data, clauses, m.complete, m.span))

    def visit_function(self, fn: Function) -> Expr:
        if fn.is_primitive:
            return fn
        return self.bound(fn, fn.replace(body=self.block(fn, 1, fn.body)))


def to_basic_block(e: Expr) -> Expr:
    """`e` with lets for expressions that several of its scopes use."""
    scopes = Scopes(e)
    blocks = _Blocks(scopes)
    new: Expr = blocks.visit(e)
    return blocks.within(0, new)


@module_pass(opt_level=0, name="ToBasicBlockNormalForm")
class ToBasicBlockNormalForm:
    """Convert every function to basic-block normal form: an expression that several scopes use (both branches of an if,
    a closure and the code around it) is bound by a let in the scope around them, and computed once. Expressions in one
    scope stay a graph.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions = dict(mod.functions)
        for g, f in mod.functions.items():
            if isinstance(f, Function) and not f.is_primitive:
                made = to_basic_block(f)
                assert isinstance(made, Function)
                functions[g] = made
        return mod.with_functions(functions)
