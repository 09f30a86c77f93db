"""MergeCompilerRegions: merges neighbouring regions of one compiler."""

from __future__ import annotations

from tilewright.ir import BaseFunc, GlobalVar, IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import ExprMutator, children
from tilewright.relay.transform.byoc.annotations import (
    DEFAULT,
    inner,
    is_begin,
    is_border,
    is_composite,
    is_end,
    own_functions,
)
from tilewright.relay.transform.byoc.marked_regions import Region, RegionSet, name_of, scopes_of
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError


class Dependences:
    """The regions on which every region, and every expression outside, depends. A set of regions is an int with a bit for each.

    Regions are entered in the order of evaluation. Two may merge if no path between them leads through a third one: merged they
    would depend on it, and it on them.
    """

    def __init__(self, regions: RegionSet) -> None:
        self.regions = regions
        self.bits: dict[Region, int] = {}
        """The bits of all regions that were merged into a region."""
        self.above: dict[Region, int] = {}
        """The regions that a region depends on, without itself."""
        self.outside: dict[Expr, int] = {}
        self.inputs: dict[Region, dict[Expr, None]] = {}

    def of(self, e: Expr) -> int:
        """The regions that the value of `e` depends on."""
        region = None if is_begin(e) else self.regions.of(e)
        if region is not None:
            return self.above.get(region, 0) | self.bits.get(region, 1 << region.number)
        return self.of(inner(e)) if is_border(e) else self.outside.get(e, 0)

    def note(self, e: Expr) -> None:
        """Enters an expression that is outside all regions."""
        found = 0
        for c in children(e):
            found |= self.of(c)
        if found:
            self.outside[e] = found

    def enter(self, region: Region) -> None:
        """Enters a region after its dependencies."""
        self.bits[region] = own = 1 << region.number
        self.inputs[region] = dict.fromkeys(inputs_of(region))
        found = 0
        for e in self.inputs[region]:
            found |= self.of(e)
        if found & own:
            raise TVMError(
                f"the region of {region.compiler} that holds {', '.join(map(name_of, region.nodes))} depends on itself: one of"
                " its results is used outside of the region to compute an input of it. End the region"
                " before; MergeCompilerRegions makes no such regions"
            )
        self.above[region] = found
        if len(region.nodes) > 1 and found:
            # Expressions that depend on an earlier part now depend on all dependencies of the region.
            self._spread(own, found)

    def _spread(self, bits: int, whole: int) -> None:
        for r, known in self.above.items():
            if known & bits:
                self.above[r] = known | whole
        for e, known in self.outside.items():
            if known & bits:
                self.outside[e] = known | whole

    def apart(self, region: Region, other: Region) -> bool:
        """Whether some input of `region`, not from `other`, depends on `other`."""
        bits = self.bits[other]
        return any([not self._from(e, other) and self.of(e) & bits for e in self.inputs[region]])

    def merge(self, region: Region, other: Region) -> None:
        """Makes `region` part of `other`."""
        bits = self.bits.pop(region) | self.bits[other]
        above = (self.above.pop(region) | self.above[other]) & ~bits
        inputs = self.inputs.pop(region)
        other.absorb(region)
        self.bits[other], self.above[other] = bits, above
        # Inputs from the other region are now inside.
        self.inputs[other] |= inputs
        self.inputs[other] = {e: None for e in self.inputs[other] if not self._from(e, other)}
        self._spread(bits, bits | above)
        self.above[other] &= ~bits

    def _from(self, e: Expr, region: Region) -> bool:
        """Whether an input comes directly from a region."""
        return is_begin(e) and is_end(inner(e)) and self.regions.of(inner(e)) is region


def inputs_of(region: Region) -> list[Expr]:
    """The operands of a region's nodes from outside, in order: borders, variables, and expressions without a border."""
    inside = set(region.nodes)
    found: dict[Expr, None] = {}
    for node in region.nodes:
        for c in children(node):
            if c not in inside and not (isinstance(c, Function) and is_composite(c)):
                found[c] = None
    return list(found)


def merged_regions(body: Expr) -> RegionSet:
    """The regions of an annotated body after all possible merges."""
    regions = RegionSet(body)
    scopes = scopes_of(body)
    known = Dependences(regions)
    entered: set[Region] = set()
    for e in regions.order:
        region = regions.of(e)
        if is_border(e) or region in entered:
            continue
        if region is None:
            known.note(e)
        elif region.nodes[-1] is e:
            # All its nodes, and so all its inputs, have been visited.
            entered.add(region)
            known.enter(region)
            if region.compiler == DEFAULT:
                continue
            _merge_into_sources(region, regions, known, scopes)
    return regions


def _merge_into_sources(
    region: Region, regions: RegionSet, known: Dependences, scopes: dict[Expr, frozenset[Expr]]
) -> None:
    node = region.nodes[0]
    for e in list(known.inputs[region]):
        if not (is_begin(e) and is_end(inner(e))):
            continue
        region, source = region.root(), regions.of(inner(e))
        if source is None or source is region or source.compiler != region.compiler:
            continue
        if scopes[source.nodes[0]] != scopes[node]:
            continue
        if not known.apart(region, source) and not known.apart(source, region):
            known.merge(region, source)


class _WithoutInnerMarks(ExprMutator):
    """Removes the borders inside merged regions."""

    def __init__(self, regions: RegionSet) -> None:
        super().__init__()
        self.regions = regions

    def visit_call(self, call: Call) -> Expr:
        if is_begin(call) and is_end(inner(call)):
            region = self.regions.of(call)
            if region is not None and region is self.regions.of(inner(call)):
                return self.visit(inner(inner(call)))
        return super().visit_call(call)

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive or is_composite(fn) else super().visit_function(fn)


def MergeCompilerRegions() -> Pass:
    """Merge regions of one compiler that pass values to each other into regions that are as large as possible.

    Two stay apart where a way between them leads through something else, which would wait for the merged region while
    that waits for it. Runs after AnnotateTarget and before PartitionGraph; without it every operator is a function of
    its own.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        with deep_recursion():
            changed: dict[GlobalVar, BaseFunc] = {
                g: f.replace(body=_WithoutInnerMarks(merged_regions(f.body)).visit(f.body))
                for g, f in own_functions(mod).items()
            }
        return infer_module(mod.with_functions({**mod.functions, **changed}))

    return Pass(PassInfo(0, "MergeCompilerRegions"), run)
