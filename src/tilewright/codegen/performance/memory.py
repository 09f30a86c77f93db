"""Accesses of a kernel as requests of warps: bank conflicts, coalescing, widths, and what concurrent blocks have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.performance.accesses import Access, Program, bits_of
from tilewright.codegen.performance.index_values import IndexValues, Unknown
from tilewright.codegen.performance.requests import BANK_BYTES, BANKS, SECTOR, WARP, sectors, wavefronts
from tilewright.codegen.performance.samples import Sample, Sampler
from tilewright.ir import IntImm
from tilewright.tir import For, ForKind
from tilewright.tir.warpgroups import WARPGROUP

WIDEST = 16
"""Bytes of the widest access of a thread."""
WAVE_POINTS = (0.0, 0.6)
"""Shares of the loops at which concurrent blocks are compared."""


class AccessReport(NamedTuple):
    """One access in a program, over a whole launch.

    place: its index. requests: of warps. width: bytes of each thread in a request. per_request: sectors of global memory, or passes through
    shared memory, as a mean; ideal: the least for as many bytes; worst: the most of any request that was looked at. unique_bytes: of its
    memory that are touched, at most; end: where the last of them is. reuse: bytes that concurrent blocks ask for, over those that are
    different (1: nothing in common; 0: shared memory). known: False where the index depends on data: then nothing but requests and bytes
    is known.
    """

    buffer: str
    memory: str
    kind: str
    place: str
    width: int
    requests: float
    per_request: float
    ideal: float
    worst: int
    unique_bytes: int
    end: int
    reuse: float
    known: bool

    @property
    def efficiency(self) -> float:
        """The least number of sectors or passes over those that are needed."""
        return self.ideal / self.per_request if self.per_request else 1.0

    @property
    def served_bytes(self) -> float:
        """Bytes of the sectors that are asked for."""
        return self.requests * self.per_request * SECTOR if self.memory == "global" else 0.0


def _bulk(access: Access, sampler: Sampler, sample: Sample, size: int) -> AccessReport:
    """A copy of a block of memory, for which one thread asks, or a matrix that a warpgroup reads: whole sectors, passes over all banks."""
    moved = access.extra[0]
    requests = sample.steps * sampler.launch.blocks * float(np.mean(sample.active)) * sampler.width
    if access.kind == "wgmma":
        requests /= WARPGROUP
    least = max(-(-moved // (SECTOR if access.memory == "global" else BANKS * BANK_BYTES)), 1)
    asked = int(requests * moved)
    return AccessReport(
        access.buffer, access.memory, access.kind, str(access.at), moved, requests, least, least, least,
        min(size, asked) if size else asked, size, 1.0 if access.memory == "global" else 0.0, True,
    )  # fmt: skip


class _Piece(NamedTuple):
    """A part of an access that is one request of a warp: byte addresses at points x threads."""

    addresses: np.ndarray
    width: int
    share: float
    """Requests for each time the program comes to the access."""


def access_report(access: Access, program: Program, sampler: Sampler, resident: int) -> AccessReport:
    """What an access does. resident: blocks that a device holds at once."""
    sample = sampler.sample(access.scope)
    warps = sampler.width // WARP
    text = str(access.at)
    size = program.size(access)
    element = max(bits_of(access.element) // 8, 1)
    reached = sample.steps * sampler.launch.blocks * warps
    if access.kind in ("bulk", "wgmma"):
        return _bulk(access, sampler, sample, size)
    try:
        active, pieces = _pieces(access, sampler, sample)
    except Unknown:
        requests = reached * access.lanes * float(np.mean(sample.active.reshape(-1, WARP).any(axis=1)))
        asked = int(requests * WARP * element)
        unique = min(size, asked) if size else asked
        return AccessReport(
            access.buffer, access.memory, access.kind, text, element, requests, 0.0, 0.0, 0, unique, size, 1.0, False
        )
    lanes = active.reshape(-1, WARP)
    there = lanes.any(axis=1)
    taken = ideal = 0.0
    requests, worst, end = 0.0, 0, 0
    measure: Any = sectors if access.memory == "global" else wavefronts
    for piece in pieces:
        places = np.broadcast_to(piece.addresses, active.shape)
        found = measure(places.reshape(-1, WARP), piece.width, lanes)
        count = piece.share * reached * float(np.mean(there))
        requests += count
        if there.any():
            taken += count * float(found.taken[there].mean())
            ideal += count * float(found.ideal[there].mean())
            worst = max(worst, int(found.taken.max()))
            end = max(end, int(places[active].max()) + piece.width)
    asked = int(min(requests * WARP * max(p.width for p in pieces), 1 << 62))
    known = [bound for bound in (size, end, asked) if bound > 0]
    return AccessReport(
        access.buffer,
        access.memory,
        access.kind,
        text,
        max(p.width for p in pieces),
        requests,
        taken / requests if requests else 0.0,
        ideal / requests if requests else 0.0,
        worst,
        min(known, default=0),
        end,
        _reuse(access, sampler, resident) if access.memory == "global" else 0.0,
        True,
    )


def _pieces(access: Access, sampler: Sampler, sample: Sample) -> tuple[np.ndarray, list[_Piece]]:
    """(active threads, requests). Raises Unknown."""
    if access.kind in ("wmma", "wmma store"):
        return _rows(access, sample)
    if access.kind == "mma store":
        return sample.active, _sums(access, sample)
    active = sample.active
    if access.kind == "ldmatrix":
        lane = np.arange(active.shape[1]) % WARP
        active = active & (lane < 8 * access.extra[0])
    bits = bits_of(access.element)
    lanes = [_starts(access, sample, k) for k in range(access.lanes if _is_vector(access) else 1)]
    first = lanes[0]
    whole = access.lanes * bits // 8
    contiguous = all([np.array_equal(at, first + k) for k, at in enumerate(lanes)])
    if access.lanes > 1 and contiguous:
        width = min(whole, WIDEST)
        aligned = not np.any(np.broadcast_to(first * bits // 8 % width, active.shape)[active]) if width else False
        if width & (width - 1) == 0 and whole % width == 0 and aligned:
            return active, [_Piece(first * bits // 8 + at, width, 1.0) for at in range(0, whole, width)]
    if access.lanes == 1:
        merged = _merged(access, sampler, sample, first, bits)
        if merged is not None:
            return active, [merged]
    if len(lanes) < access.lanes:
        lanes = [first + k for k in range(access.lanes)]
    return active, [_Piece(at * bits // 8, max(bits // 8, 1), 1.0) for at in lanes]


def _is_vector(access: Access) -> bool:
    return access.lanes > 1 and access.kind in ("load", "store")


def _starts(access: Access, sample: Sample, lane: int) -> np.ndarray:
    """The index of one lane in elements, at points x threads."""
    values = IndexValues(sample.variables, lane).of(access.at)
    return np.broadcast_to(np.asarray(values, dtype=np.int64), sample.active.shape)


def _merged(access: Access, sampler: Sampler, sample: Sample, first: np.ndarray, bits: int) -> _Piece | None:
    """Single elements in an unrolled loop, which follow each other, as the vectors that compilers make of them."""
    for scope in reversed(access.scope.path()):
        loop = scope.step
        if not isinstance(loop, For) or loop.kind != ForKind.UNROLLED or not isinstance(loop.extent, IntImm):
            continue
        at, low = sample.variables[loop.loop_var], getattr(loop.min, "value", 0)
        zero = sampler.sample(access.scope, {loop.loop_var: np.zeros_like(at) + low})
        one = sampler.sample(access.scope, {loop.loop_var: np.zeros_like(at) + low + 1})
        start = _starts(access, zero, 0)
        if loop.extent.value < 2 or not np.array_equal(_starts(access, one, 0), start + 1):
            continue
        count = WIDEST * 8 // bits
        while count > 1 and (loop.extent.value % count or np.any((start % count)[zero.active])):
            count //= 2
        if count > 1:
            begun = sampler.sample(access.scope, {loop.loop_var: (at - low) // count * count + low})
            return _Piece(_starts(access, begun, 0) * bits // 8, count * bits // 8, 1.0 / count)
    return None


def _rows(access: Access, sample: Sample) -> tuple[np.ndarray, list[_Piece]]:
    """A tile of wmma: eight of its rows at a time, by 16 bytes of each, as ldmatrix reads them; four times the threads of a request."""
    rows, columns, stride = access.extra
    step = IndexValues(sample.variables).of(stride)
    size = max(access.element.bits // 8, 1)
    lane = np.arange(sample.active.shape[1]) % WARP
    first = _starts(access, sample, 0)
    across = max(columns * size // WIDEST, 1)
    pieces = []
    for start in range(0, rows * across, WARP):
        number = np.minimum(start + lane, rows * across - 1)
        row, part = number % rows, number // rows
        pieces.append(_Piece((first + row * step) * size + part * WIDEST, WIDEST, 1.0))
    return sample.active & (lane < rows * across), pieces


def _sums(access: Access, sample: Sample) -> list[_Piece]:
    """A tile of 16 x 16 sums, eight of each thread one by one: pairs of neighbours in two rows and two halves of a row."""
    step = IndexValues(sample.variables).of(access.extra[0])
    size = max(access.element.bits // 8, 1)
    lane = np.arange(sample.active.shape[1]) % WARP
    first = _starts(access, sample, 0)
    return [
        _Piece((first + (i % 4 // 2 * 8 + lane // 4) * step + i // 4 * 8 + lane % 4 * 2 + i % 2) * size, size, 1.0)
        for i in range(8)
    ]


def _reuse(access: Access, sampler: Sampler, resident: int) -> float:
    """Sectors that concurrent blocks ask for, each block counting its own once, over those that are different."""
    asked = different = 0
    size = bits_of(access.element)
    for at in WAVE_POINTS:
        sample = sampler.wave(access.scope, resident, at)
        try:
            start = _starts(access, sample, 0) * size // 8 // SECTOR
        except Unknown:
            return 1.0
        if not sample.active.any():
            continue
        span = int(start[sample.active].max()) + 1
        own = np.arange(len(start))[:, None] * span + start
        asked += len(np.unique(own[sample.active]))
        different += len(np.unique(start[sample.active]))
    return asked / different if different else 1.0


__all__ = ["AccessReport", "access_report"]
