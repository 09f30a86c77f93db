"""The cheapest partition: every operator goes to the code generator, alone or with neighbours, that makes the whole cheapest."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush

from tilewright.ir import BaseFunc, GlobalVar, IRModule
from tilewright.node import deep_recursion, structural_hash
from tilewright.relay.collage.collage import CostEstimator
from tilewright.relay.collage.partition_spec import PartitionSpec, gather_partition_specs
from tilewright.relay.collage.sub_graph import DataflowGraph, SubGraph, bits
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import ExprMutator, flow_children
from tilewright.relay.transform.byoc.annotations import is_composite, is_external, own_functions
from tilewright.relay.transform.byoc.compiler_functions import OutlineCompilerFunctionsWithExistingGlobalSymbols
from tilewright.relay.transform.byoc.partition_graph import identifier, optimized
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError
from tilewright.target import CompilationConfig


class CandidatePartition:
    """A sub-graph, the spec whose target would take it, and what that costs."""

    def __init__(self, spec: PartitionSpec, sub_graph: SubGraph) -> None:
        self.spec, self.sub_graph = spec, sub_graph

    @property
    def partition_spec_name(self) -> str:
        """The name of the spec."""
        return self.spec.spec_name

    @property
    def is_external(self) -> bool:
        """Whether another code generator takes it."""
        return self.spec.target.kind.is_external_codegen

    def function(self, symbol: str) -> tuple[Function, list[Expr]]:
        """The sub-graph as a function, for its code generator under this name, and what the parameters stand for."""
        if not self.is_external:
            return self.sub_graph.extract({})
        attrs = {"Primitive": 1, "Compiler": self.spec.target.kind.name, "global_symbol": symbol}
        made, args = self.sub_graph.extract(attrs)
        return optimized(made, self.spec.target.kind.name), args

    def module(self) -> IRModule:
        """A module to estimate its cost with: a main that computes it."""
        made, _ = self.function("collage_candidate")
        if not self.is_external:
            return infer_module(IRModule.from_expr(made))
        gvar = GlobalVar("collage_candidate")
        params = tuple([Var(p.name_hint, p.type_annotation) for p in made.params])
        return infer_module(IRModule({gvar: made, GlobalVar("main"): Function(params, Call(gvar, params))}))

    def __repr__(self) -> str:
        return f"CandidatePartition({self.spec.spec_name}, {self.sub_graph})"


class Costs:
    """Costs of candidates: equal functions on one target are estimated once."""

    def __init__(self, estimator: CostEstimator) -> None:
        self.estimator = estimator
        self.known: dict[Hashable, float] = {}

    def __call__(self, candidate: CandidatePartition) -> float:
        mod = candidate.module()
        key = (structural_hash(mod), str(candidate.spec.target))
        if key not in self.known:
            check = candidate.spec.validate_sub_graph_func
            refused = check(candidate.function("collage_candidate")[0]) if check is not None else ""
            self.known[key] = math.inf if refused else float(self.estimator.estimate(mod, candidate.spec.target))
        return self.known[key]


def candidates(graph: DataflowGraph, specs: Sequence[PartitionSpec]) -> list[CandidatePartition]:
    """All candidates of a graph, those of one spec after those of the one before."""
    return [CandidatePartition(spec, s) for spec in specs for s in spec.rule.all_sub_graphs(graph) if s.calls]


def best_partition(
    graph: DataflowGraph, found: Sequence[CandidatePartition], cost: Callable[[CandidatePartition], float]
) -> list[CandidatePartition]:
    """The candidates of least cost in sum that together hold every call once: a shortest path over sets of calls that are held, on
    which each step takes a candidate of the first call that is not. Of equal sums the one of fewer candidates, then of earlier specs.

    A call that only one candidate holds has no choice, and what it costs does not matter. TVMError where no candidate can hold a call.
    """
    starting: dict[int, list[int]] = {}
    holders: dict[int, int] = {}
    for number, c in enumerate(found):
        calls = list(bits(c.sub_graph.calls))
        starting.setdefault(calls[0], []).append(number)
        for i in calls:
            holders[i] = holders.get(i, 0) + 1
    for i in bits(graph.calls):
        if i not in holders:
            raise TVMError(f"collage: no target of the compilation takes the operator {graph.call(i).operator.name}")

    def price(c: CandidatePartition) -> float:
        calls = list(bits(c.sub_graph.calls))
        seconds = cost(c)
        alone = len(calls) == 1 and holders[calls[0]] == 1
        return 0.0 if alone and math.isinf(seconds) else seconds

    done: set[int] = set()
    queue: list[tuple[float, tuple[int, ...], int, int]] = [(0.0, (), 0, 0)]
    prices: dict[int, float] = {}
    while queue:
        total, path, _, held = heappop(queue)
        if held in done:
            continue
        done.add(held)
        rest = graph.calls & ~held
        if not rest:
            return [found[n] for n in path[1:]]
        for number in starting.get((rest & -rest).bit_length() - 1, ()):
            members = found[number].sub_graph.calls
            if members & held:
                continue
            if number not in prices:
                prices[number] = price(found[number])
            if not math.isinf(prices[number]):
                taken = (*path[1:], number)
                heappush(queue, (total + prices[number], (len(taken), *taken), number, held | members))
    stuck = max(done, key=lambda held: held.bit_count())
    rest = graph.calls & ~stuck
    name = graph.call((rest & -rest).bit_length() - 1).operator.name
    raise TVMError(f"collage: no target of the compilation can compile the operator {name}")


class _Rewriter(ExprMutator):
    """Calls functions of other code generators where the chosen partitions stand; what is ours stays as it is."""

    def __init__(
        self, chosen: Sequence[CandidatePartition], name: Callable[[CandidatePartition, Function], str]
    ) -> None:
        super().__init__()
        self.chosen = {c.sub_graph.exit: c for c in chosen if c.is_external}
        self.name = name
        self.made: dict[Expr, tuple[Function, list[Expr]]] = {}

    def taken(self, node: Expr) -> tuple[Function, list[Expr]] | None:
        """The function that stands for a value, and its arguments."""
        if node in self.chosen and node not in self.made:
            candidate = self.chosen[node]
            function, args = candidate.function("")
            symbol = self.name(candidate, function)
            self.made[node] = function.with_attr("global_symbol", symbol), args
        return self.made.get(node)

    def operands(self, node: Expr) -> Sequence[Expr]:
        """Expressions that must be rewritten before a value."""
        taken = self.taken(node)
        return taken[1] if taken is not None else flow_children(node)

    def visit(self, expr: Expr) -> Expr:
        memo, stack = self.memo_map, [expr]
        while stack:
            node = stack[-1]
            pending = [c for c in self.operands(node) if c not in memo] if node not in memo else []
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            if node not in memo:
                memo[node] = self.rebuilt(node)
        return memo[expr]

    def rebuilt(self, node: Expr) -> Expr:
        """A value over its rewritten operands."""
        taken = self.taken(node)
        if taken is None:
            made: Expr = self._table[type(node)](self, node)
            return made
        function, args = taken
        return Call(function, tuple([self.memo_map[a] for a in args]))

    def visit_function(self, fn: Function) -> Expr:
        closed = fn.is_primitive or is_composite(fn) or is_external(fn)
        return fn if closed else super().visit_function(fn)


class _Names:
    """Symbols of external functions: collage_<compiler>_<its operators or patterns>, one for all that are equal."""

    def __init__(self, mod: IRModule) -> None:
        self.taken = {g.name_hint for g in mod.functions}
        self.known: dict[Hashable, str] = {}

    def __call__(self, candidate: CandidatePartition, function: Function) -> str:
        compiler = candidate.spec.target.kind.name
        key = (compiler, structural_hash(function))
        if key not in self.known:
            names = [name.removeprefix(f"{compiler}.") for name, _ in candidate.sub_graph.composites]
            base = identifier("_".join(["collage", compiler, *names]))
            name = next(n for i in range(1 << 30) if (n := f"{base}_{i}" if i else base) not in self.taken)
            self.taken.add(name)
            self.known[key] = name
        return self.known[key]


def partitioned(mod: IRModule, config: CompilationConfig, estimator: CostEstimator) -> IRModule:
    """The module with every operator given to whichever target makes the whole cheapest."""
    specs = gather_partition_specs(config)
    mod = infer_module(mod)
    cost, names = Costs(estimator), _Names(mod)
    functions: dict[GlobalVar, BaseFunc] = dict(mod.functions)
    with deep_recursion():
        for g, f in own_functions(mod).items():
            graph = DataflowGraph(f)
            chosen = best_partition(graph, candidates(graph, specs), cost)
            functions[g] = _Rewriter(chosen, names).rewritten_function(f)
    return OutlineCompilerFunctionsWithExistingGlobalSymbols()(mod.with_functions(functions))
