"""A function as a graph of numbered values, and the parts of it that one code generator could take.

Sets of values are integers whose bit i stands for value i in post-order, so that operands have lower numbers than what uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.ir import Op
from tilewright.relay.cards.card import ELEMWISE
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import ExprMutator, children, post_order
from tilewright.relay.rewriting import card_of
from tilewright.relay.transform.byoc.annotations import is_composite, is_external
from tilewright.relay.transform.byoc.marked_regions import scopes_of
from tilewright.relay.typing.open_types import type_of


def bits(mask: int) -> Iterator[int]:
    """The numbers in a set, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _closed(e: Expr) -> bool:
    """Functions that are not part of the program around them."""
    return isinstance(e, Function) and (e.is_primitive or is_composite(e) or is_external(e))


class DataflowGraph:
    """The values of a function, who reads whom, directly and by way of others."""

    def __init__(self, root: Expr) -> None:
        self.root = root
        self.nodes = list(post_order(root, skip=_closed))
        self.index = {e: i for i, e in enumerate(self.nodes)}
        self.scopes = scopes_of(root)
        count = len(self.nodes)
        self.inputs: list[list[int]] = []
        self.users: list[list[int]] = [[] for _ in range(count)]
        self.above = [0] * count
        """The values that each depends on."""
        self.below = [0] * count
        """The values that depend on each."""
        self.calls = 0
        """The calls of operators: what partitions must cover."""
        for i, e in enumerate(self.nodes):
            found = list(dict.fromkeys([self.index[c] for c in children(e) if c in self.index and c is not e]))
            self.inputs.append(found)
            for j in found:
                self.users[j].append(i)
                self.above[i] |= self.above[j] | 1 << j
            if type(e) is Call and type(e.op) is Op:
                self.calls |= 1 << i
        for i in range(count - 1, -1, -1):
            for j in self.inputs[i]:
                self.below[j] |= self.below[i] | 1 << i

    def call(self, i: int) -> Call:
        """The call at a number in `calls`."""
        e = self.nodes[i]
        assert isinstance(e, Call)
        return e

    def escapes(self, i: int) -> bool:
        """Whether a value is the result of the whole."""
        return self.nodes[i] is self.root or not self.users[i]


class SubGraph:
    """Values of one graph that could become one function: `inside`, the number of its operators' heaviest fusion kind, a label."""

    __slots__ = ("composites", "graph", "inside", "kind", "label")

    def __init__(
        self, graph: DataflowGraph, inside: int, label: str = "", composites: tuple[tuple[str, int], ...] = ()
    ) -> None:
        self.graph = graph
        self.inside = self._with_tuples(inside)
        kinds = [card_of(graph.call(i)).fuse for i in bits(self.calls)]
        self.kind = max(kinds, default=ELEMWISE)
        self.label = label or "_".join([graph.call(i).operator.name for i in bits(self.calls)])
        self.composites = composites
        """(name of a pattern, the values in its match): what becomes functions in the function."""

    def _with_tuples(self, inside: int) -> int:
        """The set with the tuples and projections between its members."""
        graph, todo = self.graph, list(bits(inside))
        while todo:
            for u in graph.users[todo.pop()]:
                if inside >> u & 1 or not isinstance(graph.nodes[u], (Tuple, TupleGetItem)):
                    continue
                if graph.users[u] and all([inside >> w & 1 for w in graph.users[u]]):
                    inside |= 1 << u
                    todo.append(u)
        return inside

    @property
    def calls(self) -> int:
        """The calls of operators inside."""
        return self.inside & self.graph.calls

    @property
    def exits(self) -> list[int]:
        """The values inside that something outside reads."""
        g = self.graph
        return [i for i in bits(self.inside) if g.escapes(i) or any([not self.inside >> u & 1 for u in g.users[i]])]

    @property
    def exit(self) -> Expr:
        """The result of a sub-graph with a single result."""
        return self.graph.nodes[self.exits[0]]

    @property
    def depth(self) -> int:
        """The calls on the longest way through."""
        longest: dict[int, int] = {}
        for i in bits(self.inside):
            own = self.graph.calls >> i & 1
            longest[i] = own + max([longest.get(j, 0) for j in self.graph.inputs[i]], default=0)
        return max(longest.values(), default=0)

    def is_valid(self, max_depth: int) -> bool:
        """Whether it can be one function: in one scope, with one result that nothing inside reads and that lies within the depth, and
        without a way out and in again."""
        exits = self.exits
        if len(exits) != 1 or any([self.inside >> u & 1 for u in self.graph.users[exits[0]]]):
            return False
        if len({self.graph.scopes.get(self.graph.nodes[i]) for i in bits(self.inside)}) != 1:
            return False
        above = below = 0
        for i in bits(self.inside):
            above |= self.graph.above[i]
            below |= self.graph.below[i]
        return not above & below & ~self.inside and self.depth <= max_depth

    def feeders(self) -> list[int]:
        """The values outside, of operators, that members read: through tuples and projections as well."""
        found: dict[int, None] = {}
        stack = [j for i in bits(self.inside) for j in self.graph.inputs[i]]
        seen = set(stack)
        while stack:
            j = stack.pop()
            if self.inside >> j & 1:
                continue
            if isinstance(self.graph.nodes[j], (Tuple, TupleGetItem)):
                fresh = [k for k in self.graph.inputs[j] if k not in seen]
                seen.update(fresh)
                stack += fresh
                found[j] = None
            elif self.graph.calls >> j & 1:
                found[j] = None
        return list(found)

    def __repr__(self) -> str:
        return f"SubGraph({self.label}, {{{', '.join(map(str, bits(self.inside)))}}})"

    def extract(self, attrs: Mapping[str, Any]) -> tuple[Function, list[Expr]]:
        """The function of a valid sub-graph, constants and tuples taken along and matches of patterns as functions in it; and the
        values that its parameters stand for."""
        groups = {}
        for name, members in self.composites:
            match = SubGraph(self.graph, members, name)
            groups[match.exit] = match
        return _Extract(self, groups).function(attrs)


class _Extract(ExprMutator):
    """The inside of a sub-graph, its inputs made parameters; members of `groups` called as functions of their own."""

    def __init__(self, sub_graph: SubGraph, groups: Mapping[Expr, SubGraph]) -> None:
        super().__init__()
        self.sub_graph, self.groups = sub_graph, groups
        self.params: dict[Expr, Var] = {}

    def inside(self, e: Expr) -> bool:
        i = self.sub_graph.graph.index.get(e)
        return i is not None and bool(self.sub_graph.inside >> i & 1)

    def visit(self, expr: Expr) -> Expr:
        if expr in self.memo_map:
            return self.memo_map[expr]
        if expr in self.groups:
            function, args = _Extract(self.groups[expr], {}).function({"Composite": self.groups[expr].label})
            new: Expr = Call(function, tuple([self.visit(a) for a in args]))
        elif self.inside(expr) or isinstance(expr, (Constant, Tuple, Op)) or _closed(expr):
            new = self._table[type(expr)](self, expr)
        else:
            new = self.params[expr] = Var(f"FunctionVar_{len(self.params)}", type_of(expr))
        self.memo_map[expr] = new
        return new

    def visit_function(self, fn: Function) -> Expr:
        return fn

    def function(self, attrs: Mapping[str, Any]) -> tuple[Function, list[Expr]]:
        result = self.sub_graph.exit
        body = self.visit(result)
        return Function(tuple(self.params.values()), body, type_of(result), (), attrs), list(self.params)
