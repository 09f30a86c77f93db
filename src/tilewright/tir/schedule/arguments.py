"""Conversion of arguments to the forms that traces record: buffers as numbers, Python functions as index maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import PrimExpr
from tilewright.tir import Block, Buffer
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.index_map import IndexMap

if TYPE_CHECKING:
    from tilewright.tir.buffer import BufferRegion
    from tilewright.tir.expr import Var
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.schedule.trace import BlockRV, LoopRV


def checked_map(value: Any, ndim: int) -> tuple[IndexMap, list[int]]:
    """An index map from a map or a Python function, and its axis separators. Raises Violation for an invalid one."""
    if isinstance(value, IndexMap):
        if len(value.initial_indices) != ndim:
            refuse(f"the index map takes {len(value.initial_indices)} indices, but there are {ndim}")
        return value, []
    if not callable(value):
        refuse(f"an index map is an IndexMap or a function of {ndim} indices, but {value!r} was given")
    try:
        return IndexMap.from_func_with_separators(value, ndim)
    except (ValueError, TypeError) as error:
        refuse(str(error))


def number_of(regions: tuple[BufferRegion, ...], index: Any, block: Block, what: str) -> int:
    """The number of a buffer in a list of regions, given this number, its name or the buffer."""
    buffers = [r.buffer for r in regions]
    if isinstance(index, str):
        found = [i for i, b in enumerate(buffers) if b.name == index]
        if not found:
            refuse(f"{{0}} must {what} a buffer named {index!r}, but {what}s {[b.name for b in buffers]}", block)
        return found[0]
    if isinstance(index, Buffer):
        found = [i for i, b in enumerate(buffers) if b is index]
        if not found:
            refuse(f"{{0}} must {what} {{1}}, but {what}s {[b.name for b in buffers]}", block, index)
        return found[0]
    if isinstance(index, bool) or not isinstance(index, int):
        refuse(f"a buffer of {{0}} is named by its number, its name or itself, but {index!r} was given", block)
    if not 0 <= index < len(buffers):
        refuse(f"{{0}} {what}s {len(buffers)} buffers, so there is no number {index}", block)
    return index


def buffer_argument(block: Any, buffer: Any) -> tuple[str, int]:
    """("read" or "write", number) for a buffer given as ("read", 0), by name, or as the buffer.

    For a name or buffer that is both written and read, it is the output.
    """
    if isinstance(buffer, (tuple, list)):
        if len(buffer) != 2 or buffer[0] not in ("read", "write"):
            refuse(f'a buffer is named by ("read", n) or ("write", n), but {buffer!r} was given', block)
        kind, index = buffer
        return kind, number_of(block.writes if kind == "write" else block.reads, index, block, kind)
    for kind, regions in (("write", block.writes), ("read", block.reads)):
        for i, r in enumerate(regions):
            if r.buffer is buffer or (isinstance(buffer, str) and r.buffer.name == buffer):
                return kind, i
    name = repr(buffer) if isinstance(buffer, str) else getattr(buffer, "name", repr(buffer))
    return refuse(f"{{0}} must read or write a buffer named {name}", block)


# ---- conversions of the arguments of primitives, in place: (schedule, values in the order of the parameters)


def read_number(s: Schedule, values: list[Any]) -> None:
    """(block, a buffer that it reads, ...)"""
    block = s.block(values[0]).stmt
    values[1] = number_of(block.reads, values[1], block, "read")


def write_number(s: Any, values: list[Any]) -> None:
    """(block, a buffer that it writes, ...)"""
    block = s.block(values[0]).stmt
    values[1] = number_of(block.writes, values[1], block, "write")


def read_number_below(s: Schedule, values: list[BlockRV | LoopRV | int | str]) -> None:
    """(loop, block, a buffer that it reads, ...)"""
    block = s.block(values[1]).stmt
    values[2] = number_of(block.reads, values[2], block, "read")


def write_number_below(s: Schedule, values: list[BlockRV | LoopRV | int | str]) -> None:
    """(loop, block, a buffer that it writes, ...)"""
    block = s.block(values[1]).stmt
    values[2] = number_of(block.writes, values[2], block, "write")


def either(s: Schedule, values: list[Any]) -> None:
    """(block, a buffer that it reads or writes, ...)"""
    values[1] = buffer_argument(s.block(values[0]).stmt, values[1])


def block_map(s: Schedule, values: list[Any]) -> None:
    """(block, a map of its iteration variables)"""
    values[1] = _plain_map(values[1], len(s.block(values[0]).stmt.iter_vars))


def read_map(s: Schedule, values: list[Any]) -> None:
    """(block, a buffer that it reads, scope, a map of its iteration variables)"""
    read_number(s, values)
    values[3] = _plain_map(values[3], len(s.block(values[0]).stmt.iter_vars))


def write_map(s: Schedule, values: list[Any]) -> None:
    """(block, a buffer that it writes, scope, a map of its iteration variables)"""
    write_number(s, values)
    values[3] = _plain_map(values[3], len(s.block(values[0]).stmt.iter_vars))


def layout_map(s: Schedule, values: list[Any]) -> None:
    """(block, a buffer, a map of its indices, the value of padding, ...)"""
    either(s, values)
    block = s.block(values[0]).stmt
    kind, number = values[1]
    buffer = (block.writes if kind == "write" else block.reads)[number].buffer
    values[2] = _plain_map(values[2], len(buffer.shape))
    pad = values[3]
    if callable(pad) and not isinstance(pad, (IndexMap, PrimExpr)):
        values[3], _ = checked_map(pad, len(values[2].final_indices))


def range_map(s: Schedule, values: list[Any]) -> None:
    """(block, number of a buffer, "read" or "write", the ranges of its dimensions over the iteration variables)"""
    block = s.block(values[0]).stmt
    if isinstance(values[3], IndexMap):
        return

    def ends(*variables: Var) -> list[Any]:
        given = values[3](*variables)
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        out: list[PrimExpr] = []
        for r in given:
            out.extend(r if isinstance(r, (tuple, list)) else (r, r + 1))
        return out

    if not callable(values[3]):
        refuse("gen_new_ranges must be a function of the iteration variables of {0}", block)
    values[3], _ = checked_map(_spread(ends, len(block.iter_vars)), len(block.iter_vars))


def map_of_one(s: Schedule, values: list[Any]) -> None:
    """(blocks, number, a map of one index)"""
    values[2] = _plain_map(values[2], 1)


def map_of_loops(s: Schedule, values: list[Any]) -> None:
    """(loop, loops, a map of their variables)"""
    values[2] = _plain_map(values[2], len(values[1]))


def _spread(f: Any, count: int) -> Any:
    return lambda *variables: f(*variables[:count])


def _plain_map(value: Any, ndim: int) -> IndexMap:
    mapping, separators = checked_map(value, ndim)
    if separators:
        refuse("axis separators have a meaning only in transform_layout")
    return mapping
