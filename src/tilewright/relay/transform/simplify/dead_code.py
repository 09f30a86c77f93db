"""DeadCodeElimination and RemoveUnusedFunctions."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext, module_pass
from tilewright.relay.analysis.call_graph import called_functions
from tilewright.relay.expr import Expr, Function, Let, RefWrite, Tuple, TupleGetItem
from tilewright.relay.functor import ExprMutator
from tilewright.relay.rewriting import typed_pass
from tilewright.relay.transform.effects import Effects, calls_unknown, evaluated


def live_uses(root: Expr, has_effect: Effects) -> dict[Expr, int]:
    """The number of uses of each expression by live code: the value of a let counts only if its variable is used, or
    if it has an effect."""
    counts: dict[Expr, int] = {}
    waiting: dict[Expr, Expr] = {}
    stack, seen = [root], {root}

    def use(e: Expr | None) -> None:
        while e is not None:
            counts[e] = counts.get(e, 0) + 1
            if e not in seen:
                seen.add(e)
                stack.append(e)
            e = waiting.pop(e, None)

    while stack:
        node = stack.pop()
        if isinstance(node, Let):
            if node.var in counts or has_effect(node.value):
                use(node.value)
            else:
                waiting[node.var] = node.value
            use(node.body)
        else:
            for child in (node.body,) if isinstance(node, Function) else evaluated(node):
                use(child)
    return counts


class _DropLets(ExprMutator):
    def __init__(self, counts: dict[Expr, int], inline_once: bool, has_effect: Effects) -> None:
        super().__init__()
        self.counts, self.inline_once, self.has_effect = counts, inline_once, has_effect
        self.in_order = Effects()

    def visit_let(self, let: Let) -> Expr:
        chain: list[tuple[Let, Expr | None]] = []
        for node in self.chain_of(let):
            uses, kept = self.counts.get(node.var, 0), None
            if uses == 0 and not self.has_effect(node.value):
                pass
            elif self.inline_once and uses == 1 and not (isinstance(node.value, Function) or self.in_order(node.value)):
                self.memo_map[node.var] = self.visit(node.value)
            else:
                kept = self.visit(node.value)
            chain.append((node, kept))
        result: Expr = self.visit(chain[-1][0].body)
        for node, value in reversed(chain):
            result = self.memo_map[node] = result if value is None else node.replace(value=value, body=result)
        return result

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):
            return new.tuple_value.fields[new.index]
        return new


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Remove lets with an unused variable and a value without effects, and tuples whose elements are extracted at once.
    inline_once: inline values that are used once. ignore_impurity: treat calls of functions and of impure operators as
    without effect.
    """

    def run(f: Function, mod: IRModule) -> Function:
        has_effect = Effects(lambda e: isinstance(e, RefWrite) or (not ignore_impurity and calls_unknown(e)))
        return _DropLets(live_uses(f, has_effect), inline_once, has_effect).rewritten_function(f)

    return typed_pass("DeadCodeElimination", 1, run)


@module_pass(opt_level=1, name="RemoveUnusedFunctions")
class RemoveUnusedFunctions:
    """Remove functions that the entry functions do not reach."""

    def __init__(self, entry_functions: Sequence[str] = ("main",)) -> None:
        self.entry_functions = tuple(entry_functions)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        keep = set(called_functions(mod, self.entry_functions))
        return mod.with_functions({g: f for g, f in mod.functions.items() if g in keep})
