"""The regions of an annotated program, with the classic names."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import Op
from tilewright.relay.expr import Expr, Function
from tilewright.relay.transform.byoc.annotations import BEGIN, END
from tilewright.relay.transform.byoc.marked_regions import RegionSet
from tilewright.support.errors import TVMError


class AnnotatedRegion:
    """A region between annotations. `nodes` includes annotations; `args`: marks of entering values; `rets`: of leaving values."""

    def __init__(self, number: int, target: str, nodes: list[Expr], args: list[Expr], rets: list[Expr]) -> None:
        self.id, self.target, self.nodes, self.args, self.rets = number, target, nodes, args, rets

    def __repr__(self) -> str:
        return f"AnnotatedRegion({self.id}, {self.target!r}, {len(self.nodes)} nodes)"


class AnnotatedRegionSet:
    """The regions of an expression, bounded by the operators `annotation.compiler_begin` and `compiler_end`.

    Raises TVMError for other operators, and if begin and end marks contradict each other."""

    def __init__(
        self, expr: Expr, region_begin_op: Op | str | None = None, region_end_op: Op | str | None = None
    ) -> None:
        for given, known in ((region_begin_op, BEGIN), (region_end_op, END)):
            name = given.name if isinstance(given, Op) else given
            if name not in (None, known):
                raise TVMError(f"regions are bounded by {BEGIN} and {END}, not by {name}")
        found = RegionSet(expr.body if isinstance(expr, Function) else expr)
        self.regions: list[AnnotatedRegion] = []
        self._of: dict[Expr, AnnotatedRegion] = {}
        for number, r in enumerate(found):
            nodes = [*r.begins, *r.nodes, *r.ends]
            region = AnnotatedRegion(number, r.compiler, nodes, list(r.begins), list(r.ends))
            self.regions.append(region)
            self._of.update(dict.fromkeys(nodes, region))

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self.regions)

    def get_region(self, expr: Expr) -> AnnotatedRegion | None:
        """The region of an expression, or of a begin or end mark; None if it has none."""
        return self._of.get(expr)
