"""Copies as calls of the driver."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.support.errors import TVMError
from tilewright.tir import AttrStmt, Buffer, Evaluate, For, ForKind, Stmt, Var
from tilewright.tir.transform import InjectCopyIntrin
from tilewright.tir.transform.base import body_pass
from tilewright.vta.configuration import MEMORIES
from tilewright.vta.environment import get_env
from tilewright.vta.names import LOAD, SCOPES, STORE
from tilewright.vta.transform.calls import address, called, has_pragma, in_unit, lanes_of


class _Dim(NamedTuple):
    """A loop of a copy: extent with padding, padding before and behind, strides in DRAM and on the chip."""

    extent: int
    before: Any
    after: Any
    dram: int
    chip: int

    @property
    def padded(self) -> bool:
        return not all([isinstance(p, IntImm) and p.value == 0 for p in (self.before, self.after)])

    def inside(self, other: _Dim) -> bool:
        """Whether this loop and the one outside of it are one."""
        apart = (self.dram * self.extent, self.chip * self.extent) != (other.dram, other.chip)
        return not (apart or self.padded or other.padded)


def _constants(values: Any, what: str) -> list[int]:
    if not all([isinstance(v, IntImm) for v in values]):
        raise TVMError(f"InjectDMAIntrin: {what} of a copy are constants, but these are {', '.join(map(str, values))}")
    return [v.value for v in values]


def _elements(dims: list[_Dim], lanes: int, name: str) -> list[_Dim]:
    """The loops over elements: the innermost ones are over the numbers of one, and left out; strides are then in elements."""
    numbers, rest = 1, list(dims)
    while numbers < lanes and rest:
        d = rest.pop()
        if d.extent > 1 and (d.padded or d.dram != numbers or d.chip != numbers):
            break
        numbers *= d.extent
    if numbers != lanes or any([d.dram % lanes or d.chip % lanes for d in rest]):
        raise TVMError(
            f"InjectDMAIntrin: a copy is of whole elements, {lanes} numbers that lie behind each other, but not that of `{name}`"
        )
    return [d._replace(dram=d.dram // lanes, chip=d.chip // lanes) for d in rest if d.extent > 1 or d.padded]


def _merged(dims: list[_Dim]) -> list[_Dim]:
    found: list[_Dim] = []
    for d in reversed(dims):
        if found and found[0].inside(d):
            found[0] = found[0]._replace(extent=found[0].extent * d.extent)
        else:
            found.insert(0, d)
    return found


def _copy(src: Buffer, dst: Buffer, before: list[Any], after: list[Any], value: PrimExpr) -> Stmt:
    """A copy as matrices of two dimensions with padding, under loops over the others."""
    to_chip = dst.scope() in SCOPES
    if to_chip == (src.scope() in SCOPES):
        raise TVMError(
            f"InjectDMAIntrin: a copy is between DRAM and the accelerator, but `{src.name}` is in {src.scope() or 'global'!r} and"
            f" `{dst.name}` in {dst.scope() or 'global'!r}"
        )
    chip, dram = (dst, src) if to_chip else (src, dst)
    memory = SCOPES[chip.scope()] if to_chip else "out"
    zero = IntImm("int32", 0)
    extents = _constants(dst.shape, "extents")
    strides = [_constants(b.strides, "strides") for b in (dram, chip)]
    pads = [before or [zero] * len(extents), after or [zero] * len(extents)]
    dims = [_Dim(*d) for d in zip(extents, *pads, *strides, strict=True)]
    lanes = lanes_of(memory)
    rest = _merged(_elements(dims, lanes, dst.name))
    nothing = _Dim(1, zero, zero, 1, 1)
    x = rest.pop() if rest and (rest[-1].dram, rest[-1].chip) == (1, 1) else nothing
    y = rest.pop() if rest and rest[-1].chip == x.extent and rest[-1].dram >= 0 else nothing._replace(dram=x.extent)
    if any([d.padded for d in rest]):
        raise TVMError(f"InjectDMAIntrin: padding is of the two innermost dimensions, but not that of `{dst.name}`")
    variables = [Var(f"copy{n}", "int32") for n in range(len(rest))]
    analyzer = Analyzer()
    offset, place = dram.elem_offset // lanes, chip.elem_offset
    for var, d in zip(variables, rest, strict=True):
        offset, place = offset + var * d.dram, place + var * (d.chip * lanes)
    sizes = [analyzer.simplify(d.extent - d.before - d.after) for d in (x, y)]
    on_chip = address(chip, analyzer.simplify(place), "w" if to_chip else "r")
    dev, number = get_env().dev, MEMORIES.index(memory)
    offset = analyzer.simplify(offset)
    if to_chip:
        smallest = int(isinstance(value, IntImm) and value.value < 0)
        paddings = (x.before, y.before, x.after, y.after, smallest)
        made = called(LOAD, dev.command_handle, dram.data, offset, *sizes, y.dram, *paddings, on_chip, number)
    else:
        made = called(STORE, dev.command_handle, on_chip, number, dram.data, offset, *sizes, y.dram)
    for var, d in reversed(list(zip(variables, rest, strict=True))):
        made = For(var, zero, IntImm("int32", d.extent), ForKind.SERIAL, made)
    unit = dev.QID_STORE_OUT if not to_chip else dev.QID_COMPUTE if memory == "acc" else dev.QID_LOAD_INP
    return in_unit(unit, made)


def InjectDMAIntrin() -> Pass:
    """Replace copies under the pragma `Environment.dma_copy` by calls of VTALoadBuffer2D and VTAStoreBuffer2D in the scope of their
    unit. TVMError for copies that are not between DRAM and a memory of the accelerator, or not of whole elements."""
    return InjectCopyIntrin("dma_copy", _copy)


class _SkipCopies(Mutator):
    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return Evaluate(IntImm("int32", 0)) if has_pragma(s, "skip_dma_copy") else self.rebuild(s)


def InjectSkipCopy() -> Pass:
    """Leave out copies under the pragma "skip_dma_copy", to see what a program costs without them."""
    return body_pass("vta.InjectSkipCopy", lambda f: _SkipCopies().visit(f.body))


__all__ = ["InjectDMAIntrin", "InjectSkipCopy"]
