"""Which elements and cache lines a statement touches, for each level of its loops."""

from __future__ import annotations

from tilewright.ir import IntImm
from tilewright.tir import Buffer
from tilewright.tuning.features.linear import Digit, Linear, distinct, rejoined, resolved
from tilewright.tuning.features.stores import Access, Store

Term = tuple[int, int, int]
"""Depth, factor and extent of a digit."""


class Footprint:
    """What a statement touches of a buffer. Lists are by level: of the iterations of the loops from that depth on, while those outside
    stand still; the last entry is of a single iteration.

    elements, lines: distinct ones, lines of `line` bytes. moves: whether the loop of a depth changes what is accessed. stride: elements
    between the accesses of neighbouring iterations of the innermost loop. count: accesses in the statement.
    """

    __slots__ = ("buffer", "count", "element", "elements", "lines", "moves", "reads", "stride", "writes")

    def __init__(self, buffer: Buffer, accesses: list[Access], depth: int, line: int) -> None:
        self.buffer = buffer
        self.element = max(buffer.dtype.bytes * buffer.dtype.lanes, 1)
        self.reads = any([not a.write for a in accesses])
        self.writes = any([a.write for a in accesses])
        shape = [d.value if type(d) is IntImm else 0 for d in buffer.shape]
        strides = _strides(buffer, shape)
        self.moves = [False] * depth
        self.count = 0
        self.elements = [0] * (depth + 1)
        self.lines = [0.0] * (depth + 1)
        self.stride = 0
        for terms, shifts, box, number in _groups(accesses, strides):
            flat = len(terms) != len(shape)
            for dimension, stride in zip(terms, (1,) if flat else strides, strict=True):
                for at, factor, extent in dimension:
                    if extent > 1 and at < depth:
                        self.moves[at] = True
                        if at == depth - 1:
                            self.stride += abs(factor) * stride
            self.count += number
            self._add(terms, shifts, box, [0] if flat else shape, line, depth)
        if all(shape):
            size = 1
            for n in shape:
                size *= n
            self.elements = [min(n, size) for n in self.elements]
        self.lines = [min(a, float(b)) for a, b in zip(self.lines, self.elements, strict=True)]

    def _add(
        self,
        terms: list[list[Term]],
        shifts: list[set[int]],
        box: tuple[int, ...],
        shape: list[int],
        line: int,
        depth: int,
    ) -> None:
        sizes: list[tuple[int, int, int]] = []
        for dimension, constants, wide in zip(terms, shifts, box or (1,) * len(terms), strict=True):
            sizes.append(_values(dimension, depth, constants, wide))
        changed = {at for dimension in terms for at, _, _ in dimension}
        elements, lines = _size(sizes, shape, self.element, line)
        self.elements[depth] += elements
        self.lines[depth] += lines
        for level in range(depth - 1, -1, -1):
            if level in changed:
                for k, dimension in enumerate(terms):
                    if any([at == level for at, _, _ in dimension]):
                        sizes[k] = _values(dimension, level, shifts[k], box[k] if box else 1)
                elements, lines = _size(sizes, shape, self.element, line)
            self.elements[level] += elements
            self.lines[level] += lines


def _groups(
    accesses: list[Access], strides: list[int]
) -> list[tuple[list[list[Term]], list[set[int]], tuple[int, ...], int]]:
    """Accesses that differ only in constants, together: the terms and the constants of each dimension, the box, how many they are. Where
    dimensions depend on the same digits, as on a diagonal, they are one: the offset of the element."""
    found: dict[object, tuple[list[list[Term]], list[set[int]], tuple[int, ...], int]] = {}
    for access in accesses:
        index: list[Linear] = [resolved(i) for i in access.index]
        if len(index) > 1 and not access.box:
            used = [d for _, t in index for d in t]
            all_used = set(used)
            if len(all_used) != len(used) or any([d.whole and d.whole[0] in all_used for d in used]):
                index = [rejoined(_offset(index, strides))]
        key = (tuple([frozenset(terms.items()) for _, terms in index]), access.box)
        known = found.get(key)
        if known is None:
            terms = [[(d.depth, f, d.extent) for d, f in t.items()] for _, t in index]
            found[key] = terms, [{constant} for constant, _ in index], access.box, 1
        else:
            for constants, (constant, _) in zip(known[1], index, strict=True):
                constants.add(constant)
            found[key] = (*known[:3], known[3] + 1)
    return list(found.values())


def _offset(index: list[Linear], strides: list[int]) -> Linear:
    constant = 0
    terms: dict[Digit, int] = {}
    for (shift, dimension), stride in zip(index, strides, strict=True):
        constant += shift * stride
        for digit, factor in dimension.items():
            terms[digit] = terms.get(digit, 0) + factor * stride
    return constant, terms


def _values(terms: list[Term], level: int, constants: set[int], wide: int) -> tuple[int, int, int]:
    inner = [(abs(factor), extent) for at, factor, extent in terms if at >= level]
    if wide > 1:
        inner.append((1, wide))
    if len(inner) > 1:
        inner.sort()
    if len(constants) == 1:
        return distinct(tuple(inner))
    return distinct(tuple(inner), tuple(sorted(constants)))


def _size(sizes: list[tuple[int, int, int]], shape: list[int], element: int, line: int) -> tuple[int, float]:
    """Elements, and cache lines, of a box of values."""
    elements = 1
    for (count, _, _), dim in zip(sizes, shape, strict=True):
        elements *= min(count, dim) if dim else count
    # The run of neighbouring elements: the last dimension, and those before it while all of it is accessed.
    run, step = 1, 1
    for (count, span, gap), dim in zip(reversed(sizes), reversed(shape), strict=True):
        if run == 1 and gap > 1:
            step = gap
        if gap > 1 or (count - 1) * gap != span:
            break
        run *= min(count, dim) if dim else count
        if count < dim:
            break
    if run > 1:
        return elements, elements / run * -(-run * element // line)
    return elements, elements * min(1.0, step * element / line) if step > 1 else float(elements)


def _strides(buffer: Buffer, shape: list[int]) -> list[int]:
    if buffer.strides:
        return [s.value if type(s) is IntImm else 1 for s in buffer.strides]
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim or 1
    return strides[::-1]


def footprints(store: Store, line: int) -> list[Footprint]:
    """Those of the buffers of a statement, in the order of their first access."""
    depth = len(store.loops)
    buffers: dict[Buffer, list[Access]] = {}
    for access in store.accesses:
        buffers.setdefault(access.buffer, []).append(access)
    return [Footprint(buffer, accesses, depth, line) for buffer, accesses in buffers.items()]
