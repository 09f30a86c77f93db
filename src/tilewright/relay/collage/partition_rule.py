"""Partition rules: the sub-graphs of a function that a code generator could take. Rules are values that are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.relay.cards.card import BROADCAST, COMM_REDUCE, INJECTIVE, OPAQUE, OUT_ELEMWISE
from tilewright.relay.collage.sub_graph import DataflowGraph, SubGraph, bits
from tilewright.relay.dataflow_pattern.patterns import DFPattern
from tilewright.relay.expr import Constant, Expr
from tilewright.relay.functor import users

UNLIMITED = 1 << 30


def _accept(e: Expr) -> bool:
    return True


class PartitionRule:
    """Base of rules that find sub-graphs of a graph."""

    def __init__(self, rule_name: str) -> None:
        self.rule_name = rule_name

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        """The sub-graphs of the graph that the rule finds, each valid."""
        return []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule_name!r})"


class DFPatternPartitionRule(PartitionRule):
    """The matches of a dataflow pattern at which the predicate, given the matched expression, holds."""

    def __init__(self, rule_name: str, pattern: DFPattern, predicate: Callable[[Expr], Any] | None = None) -> None:
        super().__init__(rule_name)
        self.pattern, self.predicate = pattern, predicate or _accept

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        from tilewright.relay.dataflow_pattern.rewriter import find_group

        uses = users([graph.root])
        found: list[SubGraph] = []
        for e in graph.nodes:
            matcher = find_group(self.pattern, e, uses)
            if matcher is None:
                continue
            members = [graph.index[x] for x in matcher.group() if x in graph.index and not isinstance(x, Constant)]
            made = SubGraph(graph, sum([1 << i for i in members]), self.rule_name)
            if made.calls and made.is_valid(UNLIMITED) and self.predicate(e):
                found.append(made)
        return found


class CompositePartitionRule(PartitionRule):
    """The sub-graphs of another rule, each as a function with the attribute Composite, the rule's name."""

    def __init__(self, rule_name: str, sub_rule: PartitionRule) -> None:
        super().__init__(rule_name)
        self.sub_rule = sub_rule

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        return [
            SubGraph(graph, s.inside, self.rule_name, ((self.rule_name, s.inside),))
            for s in self.sub_rule.all_sub_graphs(graph)
        ]


class UnionPartitionRule(PartitionRule):
    """The sub-graphs that any of several rules finds."""

    def __init__(self, rule_name: str, sub_rules: Sequence[PartitionRule]) -> None:
        super().__init__(rule_name)
        self.sub_rules = list(sub_rules)

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        return [s for rule in self.sub_rules for s in rule.all_sub_graphs(graph)]


class OpCallByKindPartitionRule(PartitionRule):
    """Every call of an operator by itself."""

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        return [SubGraph(graph, 1 << i) for i in bits(graph.calls)]


class CombinerRule:
    """Which sub-graphs may become one with what they read."""

    def may_combine(self, upstream: SubGraph, downstream: SubGraph) -> bool:
        """Whether one whose result the other reads may be joined with it."""
        return True


class SimpleCombinerRule(CombinerRule):
    """Joins by the heaviest fusion kinds: upstream at most of one, downstream at most of another."""

    def __init__(self, upstream_kind: int, downstream_kind: int) -> None:
        self.upstream_kind, self.downstream_kind = upstream_kind, downstream_kind

    def may_combine(self, upstream: SubGraph, downstream: SubGraph) -> bool:
        return upstream.kind <= self.upstream_kind and downstream.kind <= self.downstream_kind


TVM_COMBINERS = (
    SimpleCombinerRule(OUT_ELEMWISE, BROADCAST),
    SimpleCombinerRule(BROADCAST, COMM_REDUCE),
    SimpleCombinerRule(INJECTIVE, INJECTIVE),
)
"""The sub-graphs that operator fusion joins."""
ARBITRARY_COMBINERS = (SimpleCombinerRule(OPAQUE, OPAQUE),)


class CombinePartitionRule(PartitionRule):
    """The sub-graphs of another rule, and those that combiner rules make by joining neighbours, up to a depth in calls."""

    def __init__(
        self, rule_name: str, sub_rule: PartitionRule, combiner_rules: Iterable[CombinerRule], max_depth: int
    ) -> None:
        super().__init__(rule_name)
        self.sub_rule, self.combiner_rules, self.max_depth = sub_rule, list(combiner_rules), max_depth

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        bases = [s for s in self.sub_rule.all_sub_graphs(graph) if s.is_valid(UNLIMITED)]
        by_exit: dict[int, list[SubGraph]] = {}
        for s in bases:
            by_exit.setdefault(s.exits[0], []).append(s)
        found = {(s.inside, s.composites): s for s in bases}
        # Whatever has one result arises from its last part by taking on, one by one, parts whose results it alone reads.
        queue = list(found.values())
        for s in queue:
            for p in s.feeders():
                for other in by_exit.get(p, ()):
                    if other.inside & s.inside or not any([r.may_combine(other, s) for r in self.combiner_rules]):
                        continue
                    composites = tuple(sorted({*s.composites, *other.composites}, key=lambda c: c[1]))
                    names = [name for name, _ in composites]
                    made = SubGraph(graph, s.inside | other.inside, "_".join(names), composites)
                    key = (made.inside, made.composites)
                    if key not in found and made.is_valid(self.max_depth):
                        found[key] = made
                        queue.append(made)
        return list(found.values())


class OnlyValidPartitionRule(PartitionRule):
    """The sub-graphs of another rule up to a depth in calls."""

    def __init__(self, rule_name: str, sub_rule: PartitionRule, max_depth: int = UNLIMITED) -> None:
        super().__init__(rule_name)
        self.sub_rule, self.max_depth = sub_rule, max_depth

    def all_sub_graphs(self, graph: DataflowGraph) -> list[SubGraph]:
        return [s for s in self.sub_rule.all_sub_graphs(graph) if s.is_valid(self.max_depth)]


def make_labelled_dfpattern_partition_rule(
    compiler: str, rule_name: str, dataflow_pattern: DFPattern, predicate: Callable[[Expr], Any] | None = None
) -> PartitionRule:
    """The rule of one entry (label, pattern) or (label, pattern, predicate) of a compiler's pattern table."""
    return CompositePartitionRule(rule_name, DFPatternPartitionRule(rule_name, dataflow_pattern, predicate))


make_labelled_dfpattern_partition_rule_with_predicate = make_labelled_dfpattern_partition_rule
