"""The first few elements of many lines: a vector holds an element of each of several lines.

for each group of lines:
  held[0 .. number]: the first elements so far of each line, in order
  for each element of the lines: those of held that come after it move by one, and it takes the place before them

All lines compare with all of held, without branches, so a step takes as long for any data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, loop_kind, program
from tilewright.topi.utils import shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder

LANES = 16
"""The lines of a group: keys have 32 bits, and the widest vectors 512."""
WORD = "uint32"


def side_by_side(
    data: te.Tensor, axis: int, number: int, dtype: str, sortable: Callable[[PrimExpr], PrimExpr]
) -> list[te.Tensor]:
    """[values, places] of the first `number` elements of each line, in order, equal ones by their places; places in `dtype`. Extents must
    be known. sortable: a key of type uint32, in whose ascending order elements are wanted."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    out = [*shape[:axis], number, *shape[axis + 1 :]]
    count, length = lines.count, lines.length
    assert isinstance(count, int) and isinstance(length, int)
    groups = -(-count // LANES)

    def body(ib: IRBuilder, x: BufferVar, values: BufferVar, places: BufferVar) -> None:
        with ib.for_range(0, groups, "group", kind=loop_kind(count, length, number)) as group:
            held, found = (ib.allocate(WORD, (number * LANES,), name, scope="local") for name in ("held", "found"))
            key = ib.allocate(WORD, (LANES,), "key", scope="local")

            def line(lane: Var) -> Any:
                """Lanes behind the last line do its work once more."""
                at = group * LANES + lane
                return at if count % LANES == 0 else tir.min(at, count - 1)

            def enter(k: Any, filled: int) -> None:
                """Element k of each line takes its place among the first `filled` ones; those behind it move by one."""
                with ib.for_range(0, LANES, "lane", kind="vectorize") as lane:
                    key[lane] = sortable(x[lines.index(line(lane), k)])
                for slot in reversed(range(min(filled + 1, number))):
                    with ib.for_range(0, LANES, "lane", kind="vectorize") as lane:
                        at = slot * LANES + lane
                        mine: Any = ib.let("mine", key[lane])
                        value, place = mine, to(k, WORD)
                        if slot > 0:
                            moves = ib.let("moves", mine < held[at - LANES])
                            value = tir.Select(moves, held[at - LANES], value)
                            place = tir.Select(moves, found[at - LANES], place)
                        if slot < filled:
                            stays = ib.let("stays", held[at] <= mine)
                            value, place = tir.Select(stays, held[at], value), tir.Select(stays, found[at], place)
                        held[at], found[at] = ib.let("value", value), ib.let("place", place)

            for filled in range(number):
                enter(tir.const(filled, "int32"), filled)
            if length > number:
                with ib.for_range(number, length, "k") as k:
                    enter(k, number)
            for j in range(number):
                with ib.for_range(0, LANES, "lane", kind="vectorize") as lane:
                    index, at = line(lane), to(found[j * LANES + lane], "int32")
                    values[lines.index(index, j)] = x[lines.index(index, at)]
                    places[lines.index(index, j)] = to(at, dtype)

    return program([out, out], [data.dtype, dtype], [data], body, "side_by_side")


__all__ = ["side_by_side"]
