"""Copies of elements between DRAM and the chip as matrices with padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tilewright.vta.isa.layout import Layout

Array = np.ndarray[Any, Any]


class Transfer(NamedTuple):
    """A matrix of elements: its first one on the chip, its address in bytes, rows, columns, stride (elements), padding top, bottom, left
    and right."""

    sram: int
    dram: int
    rows: int
    columns: int
    stride: int
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def elements(self) -> int:
        """Elements on the chip."""
        top, bottom, left, right = self.padding
        return (top + self.rows + bottom) * (left + self.columns + right)


class _Run(NamedTuple):
    """Elements that lie behind each other on both sides; dram -1: padding."""

    sram: int
    dram: int
    length: int


class _Limits(NamedTuple):
    """The largest padding, number of rows, and stride."""

    padding: int
    rows: int
    stride: int


def _runs(sram: Array, dram: Array, size: int) -> list[_Run]:
    """Elements in the order of the chip, cut into runs."""
    joined = np.where(dram[1:] < 0, dram[:-1] < 0, (dram[1:] == dram[:-1] + size) & (dram[:-1] >= 0))
    cuts = np.flatnonzero(~(joined & (sram[1:] == sram[:-1] + 1))) + 1
    begins, ends = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(sram)]])
    return [_Run(int(sram[a]), int(dram[a]), int(b - a)) for a, b in zip(begins, ends, strict=True)]


def _padding(run: _Run, limit: int) -> Iterator[Transfer]:
    """Padding alone: rows of the widest padding, and a last one."""
    at, left, widest = run.sram, run.length, 2 * limit
    while left:
        width = min(left, widest)
        rows = min(left // width, widest)
        yield Transfer(
            at, 0, 0, 0, 0, (min(rows, limit), max(rows - limit, 0), min(width, limit), max(width - limit, 0))
        )
        at, left = at + rows * width, left - rows * width


def _group(runs: list[_Run], first: int, size: int, limits: _Limits) -> tuple[int, int, int]:
    """The rows from a run on that have one length, one distance and one gap of padding between them: (last run, gap, stride)."""
    last, gap, stride, rows = first, 0, runs[first].length, 1
    while rows < limits.rows:
        padded = last + 2 < len(runs) and runs[last + 1].dram < 0
        after, wide = (last + 2, runs[last + 1].length) if padded else (last + 1, 0)
        if after >= len(runs) or runs[after].dram < 0 or runs[after].length != runs[first].length:
            break
        step = runs[after].dram - runs[last].dram
        if (
            step % size
            or not 0 <= step // size <= limits.stride
            or (rows > 1 and (step // size, wide) != (stride, gap))
        ):
            break
        last, gap, stride, rows = after, wide, step // size, rows + 1
    return last, gap, stride


def _frame(rows: int, columns: int, gap: int, before: int, behind: int, limit: int) -> tuple[int, int, int, int] | None:
    """The padding (top, bottom, left, right) of a matrix with so many elements of padding before, between and behind its rows."""
    sides = range(limit + 1)
    for left in sides:
        for right in [gap - left] if rows > 1 else sides:
            width = left + columns + right
            if not 0 <= right <= limit or before < left or behind < right:
                continue
            top, bottom = (before - left) / width, (behind - right) / width
            if top in sides and bottom in sides:
                return int(top), int(bottom), left, right
    return None


def _segment(runs: list[_Run], size: int, limits: _Limits) -> Iterator[Transfer]:
    """Runs that lie behind each other on the chip, as matrices; padding that fits into no frame is a matrix of its own."""
    n = 0
    while n < len(runs):
        before = runs[n].length if runs[n].dram < 0 else 0
        first = n + bool(before)
        if first == len(runs):
            yield from _padding(runs[n], limits.padding)
            return
        for last, gap, stride in (_group(runs, first, size, limits), (first, 0, runs[first].length)):  # noqa: B007
            behind = runs[last + 1].length if last + 1 < len(runs) and runs[last + 1].dram < 0 else 0
            rows, columns = (last - first) // (1 + bool(gap)) + 1, runs[first].length
            frames = [
                (a, b, _frame(rows, columns, gap, a, b, limits.padding)) for a in (before, 0) for b in (behind, 0)
            ]
            found = next((f for f in frames if f[2] is not None), None)
            if found is not None:
                break
        assert found is not None and found[2] is not None  # a row alone needs no frame
        if before and not found[0]:
            yield from _padding(runs[n], limits.padding)
        yield Transfer(runs[first].sram - found[0], runs[first].dram, rows, columns, stride, found[2])
        n = last + 1 + bool(found[1])


def transfers(sram: Array, dram: Array, size: int, layout: Layout) -> Iterator[Transfer]:
    """Matrices that move elements of `size` bytes. sram: places on the chip, each once; dram: addresses in bytes, or -1 for padding."""
    order = np.argsort(sram, kind="stable")
    places = {p.field.name: p for p in layout.instructions["load"]}
    limits = _Limits(places["x_pad_left"].high, places["y_size"].high, places["x_stride"].high)
    segment: list[_Run] = []
    for run in _runs(sram[order], dram[order], size):
        for piece in _cut(run, places["x_size"].high, size):
            if segment and segment[-1].sram + segment[-1].length != piece.sram:
                yield from _segment(segment, size, limits)
                segment = []
            segment.append(piece)
    yield from _segment(segment, size, limits)


def _cut(run: _Run, most: int, size: int) -> Iterator[_Run]:
    for at in range(0, run.length, most):
        yield _Run(run.sram + at, -1 if run.dram < 0 else run.dram + at * size, min(most, run.length - at))


__all__ = ["Transfer", "transfers"]
