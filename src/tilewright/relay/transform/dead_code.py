"""DeadCodeElimination and RemoveUnusedFunctions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import IRModule, Op
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.analysis import called_functions
from tilewright.relay.expr import Call, Expr, Let, Tuple, TupleGetItem
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.transform.rewriting import card_of, typed_pass


def is_pure(e: Expr) -> bool:
    """Whether evaluating `e` has no effect but its value. Calls of functions count as impure."""
    calls = [node for node in post_order(e) if type(node) is Call]
    return all([type(c.op) is Op and card_of(c).pure for c in calls])


class _DropLets(ExprMutator):
    def __init__(self, counts: dict[Expr, int], inline_once: bool) -> None:
        super().__init__()
        self.counts, self.inline_once = counts, inline_once

    def visit_let(self, let: Let) -> Expr:
        chain: list[tuple[Let, Expr]] = []
        body: Expr = let
        while type(body) is Let:
            uses = self.counts.get(body.var, 0)
            if (uses == 0 or (self.inline_once and uses == 1)) and is_pure(body.value):
                if uses:
                    self.memo_map[body.var] = self.visit(body.value)
            else:
                chain.append((body, self.visit(body.value)))
            body = body.body
        result: Any = self.visit(body)
        for node, value in reversed(chain):
            result = node.replace(value=value, body=result)
        return result  # type: ignore[no-any-return]

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):
            return new.tuple_value.fields[new.index]
        return new


def _uses(root: Expr) -> dict[Expr, int]:
    counts: dict[Expr, int] = {}
    for node in post_order(root):
        operands = (node.value, node.body) if type(node) is Let else _operands(node)
        for child in operands:
            counts[child] = counts.get(child, 0) + 1
    return counts


def _operands(node: Expr) -> Sequence[Expr]:
    from tilewright.relay.expr import Function
    from tilewright.relay.functor import children

    return (node.body,) if type(node) is Function else children(node)


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Any:
    """Drop let-bindings that nothing uses and elements of tuples that are taken apart at once."""
    return typed_pass("DeadCodeElimination", 1, lambda f, mod: _DropLets(_uses(f), inline_once).visit(f))


@module_pass(opt_level=1, name="RemoveUnusedFunctions")
class RemoveUnusedFunctions:
    """Keep the functions that the entry functions reach."""

    def __init__(self, entry_functions: Sequence[str] = ("main",)) -> None:
        self.entry_functions = tuple(entry_functions)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        keep = set(called_functions(mod, self.entry_functions))
        return mod.with_functions({g: f for g, f in mod.functions.items() if g in keep})
