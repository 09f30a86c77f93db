"""Computes that move elements: reshape, transpose, slices, concatenation, layouts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import (
    Dim,
    as_int,
    ceil_div,
    get_const_int,
    known_equal,
    normalize_axis,
    prod,
    shape_of,
    symbolic_slice,
    to,
)

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import ProducerLoad, Var

__getattr__, __dir__ = elsewhere(__name__)


def _injective(shape: Sequence[Dim], f: Any, name: str) -> te.Tensor:
    return compute(list(shape), f, name=name, tag=tag.INJECTIVE)


def reshape_groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[int, int, int, int]] | None:
    """The smallest pairs of axis ranges, [a, b) of `old` and [c, d) of `new`, with the same elements; None if they are not known."""
    groups = []
    a = c = 0
    while a < len(old) or c < len(new):
        b, d = a, c
        left: Dim = 1
        right: Dim = 1
        if b < len(old):
            left, b = old[b], b + 1
        if d < len(new):
            right, d = new[d], d + 1
        while not known_equal(left, right):
            if not (isinstance(left, int) and isinstance(right, int)):
                return None
            if left < right:
                if b == len(old):
                    return None
                nxt, b = old[b], b + 1
                if not isinstance(nxt, int):
                    return None
                left *= nxt
            else:
                if d == len(new):
                    return None
                nxt, d = new[d], d + 1
                if not isinstance(nxt, int):
                    return None
                right *= nxt
        groups.append((a, b, c, d))
        a, c = b, d
    return groups


def _flatten_index(shape: Sequence[Dim], index: Sequence[Var]) -> Any:
    flat: Any = None
    for d, i in zip(shape, index, strict=True):
        if isinstance(d, int) and d == 1:
            continue
        flat = i if flat is None else flat * d + i
    return 0 if flat is None else flat


def _unflatten_index(shape: Sequence[Dim], flat: PrimExpr) -> list[PrimExpr | int]:
    result: list[PrimExpr | int] = []
    # Axes of extent 0 or 1 need no index arithmetic: the index is 0, or is never used.
    live = [k for k, d in enumerate(shape) if not (isinstance(d, int) and d <= 1)]
    for k in reversed(range(len(shape))):
        if k not in live:
            result.append(0)
        elif k == live[0]:
            result.append(flat)
        else:
            result.append(tir.floormod(flat, shape[k]))
            flat = tir.floordiv(flat, shape[k])
    return result[::-1]


def reshape(a: te.Tensor, newshape: Sequence[Dim]) -> te.Tensor:
    """The same elements, in row-major order, in another shape (all extents given).

    Indices are divided only where old axes are split differently: (1, 128, 768) -> (1, 128, 12, 64) needs no division.
    """
    old, new = shape_of(a), [as_int(d) for d in newshape]
    groups = reshape_groups(old, new) or [(0, len(old), 0, len(new))]

    def element(*i: Var) -> ProducerLoad:
        index: list[PrimExpr | int] = []
        for first, last, begin, end in groups:
            if last - first == 1 and end - begin == 1:
                index.append(i[begin])
            elif last > first:
                index += _unflatten_index(old[first:last], _flatten_index(new[begin:end], i[begin:end]))
        return a(*index)

    return _injective(new, element, "T_reshape")


def transpose(a: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """a with its axes in another order; reversed if None."""
    n = len(a.shape)
    order = list(range(n))[::-1] if not axes else [normalize_axis(int(k), n) for k in axes]
    shape = shape_of(a)

    def element(*i: Var) -> Any:
        index: list[Any] = [None] * n
        for place, k in zip(i, order, strict=True):
            index[k] = place
        return a(*index)

    return _injective([shape[k] for k in order], element, "T_transpose")


def expand_dims(a: te.Tensor, axis: int, num_newaxis: int = 1) -> te.Tensor:
    """a with `num_newaxis` axes of extent 1 inserted before `axis`."""
    shape = shape_of(a)
    at = normalize_axis(axis, len(shape) + 1)
    return _injective(
        shape[:at] + [1] * num_newaxis + shape[at:], lambda *i: a(*i[:at], *i[at + num_newaxis :]), "T_expand_dims"
    )


def expand_like(a: te.Tensor, shape_like: te.Tensor, axis: Sequence[int]) -> te.Tensor:
    """a with the shape of shape_like: it gets the axes `axis` of shape_like, along which its elements are repeated."""
    shape = shape_of(shape_like)
    new = [normalize_axis(int(k), len(shape)) for k in axis]
    kept = [k for k in range(len(shape)) if k not in new]
    if len(kept) != len(a.shape) or not all(map(known_equal, [shape[k] for k in kept], shape_of(a))):
        raise ValueError(
            f"expand_like: the shape {shape} without axes {sorted(new)} must be {shape_of(a)}, that of the data"
        )
    return _injective(shape, lambda *i: a(*[i[k] for k in kept]), "T_expand_like")


def squeeze(a: te.Tensor, axis: Sequence[int] | int | None = None) -> te.Tensor:
    """a without axes of extent 1: all of them, or the given ones."""
    shape = shape_of(a)
    if axis is None:
        gone = [k for k, d in enumerate(shape) if known_equal(d, 1)]
    else:
        gone = [normalize_axis(int(k), len(shape)) for k in ([axis] if isinstance(axis, int) else axis)]

    def element(*i: Var) -> Any:
        rest = iter(i)
        return a(*[0 if k in gone else next(rest) for k in range(len(shape))])

    return _injective([d for k, d in enumerate(shape) if k not in gone], element, "T_squeeze")


def concatenate(a_tuple: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Tensors joined along `axis`."""
    first = shape_of(a_tuple[0])
    at = normalize_axis(axis, len(first))
    sizes = [shape_of(t)[at] for t in a_tuple]
    total: Dim = sizes[0]
    for s in sizes[1:]:
        total = total + s

    def element(*i: Var) -> Any:
        ends = sizes[0]
        bounds = [0]
        for s in sizes[1:]:
            bounds.append(ends)
            ends = ends + s
        value: PrimExpr = a_tuple[-1](*i[:at], i[at] - bounds[-1], *i[at + 1 :])
        for t, begin, after in reversed(list(zip(a_tuple[:-1], bounds[:-1], bounds[1:], strict=True))):
            here = i[at] - begin if not (isinstance(begin, int) and begin == 0) else i[at]
            value = tir.if_then_else(i[at] < after, t(*i[:at], here, *i[at + 1 :]), value)
        return value

    return _injective([*first[:at], as_int(total), *first[at + 1 :]], element, "T_concat")


def stack(a: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Tensors of one shape, joined along a new axis."""
    at = normalize_axis(axis, len(a[0].shape) + 1)
    return concatenate([expand_dims(t, at) for t in a], at)


def split(ary: te.Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[te.Tensor]:
    """The pieces along `axis`. indices_or_sections: the number of equal pieces, or the positions at which to cut."""
    shape = shape_of(ary)
    at = normalize_axis(axis, len(shape))
    if isinstance(indices_or_sections, int):
        size = as_int(shape[at] // indices_or_sections)
        begins = [k * size for k in range(indices_or_sections)]
        sizes = [size] * indices_or_sections
    else:
        begins = [0, *[as_int(k) for k in indices_or_sections]]
        sizes = [as_int(e - b) for b, e in zip(begins, [*begins[1:], shape[at]], strict=True)]

    def piece(begin: Dim, size: Dim, k: int) -> te.Tensor:
        return _injective(
            [*shape[:at], size, *shape[at + 1 :]], lambda *i: ary(*i[:at], i[at] + begin, *i[at + 1 :]), f"T_split{k}"
        )

    return [piece(b, s, k) for k, (b, s) in enumerate(zip(begins, sizes, strict=True))]


def slice_bounds(extent: int, begin: int, end: int, stride: int) -> tuple[int, int]:
    """The first position and the number of positions of begin:end:stride along an axis, as in Python slices."""
    start, stop, step = slice(begin, end, stride).indices(extent)
    return start, len(range(start, stop, step))


def strided_slice(
    a: te.Tensor,
    begin: Sequence[int],
    end: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> te.Tensor:
    """a[begin:end:strides] along `axes` (the leading ones if None), with bounds clipped as in NumPy; to the end of the axes without
    `end`. slice_mode: with "size", `end` is the number of elements, where a negative one means all up to the end, and strides are 1."""
    shape = shape_of(a)
    if slice_mode not in ("end", "size"):
        raise ValueError(f'strided_slice: slice_mode must be "end" or "size", but is {slice_mode!r}')
    places = [normalize_axis(int(k), len(shape)) for k in axes] if axes is not None else list(range(len(begin)))
    steps = [int(s) for s in strides] if strides and slice_mode == "end" else []
    steps += [1] * (len(begin) - len(steps))
    to_end = 2**31 - 1
    if end is None:
        end = [to_end if s > 0 else -to_end for s in steps]
    elif slice_mode == "size":
        sizes = [as_int(e) for e in end]
        end = [to_end if isinstance(e, int) and e < 0 else b + e for b, e in zip(begin, sizes, strict=True)]
    starts: dict[int, tuple[Any, int]] = {}
    out = list(shape)
    for k, b, e, s in zip(places, begin, end, steps, strict=True):
        extent = shape[k]
        known = [as_int(v) for v in (b, e)]
        if isinstance(extent, int) and all(isinstance(v, int) for v in known):
            start, count = slice_bounds(extent, known[0], known[1], s)
            out[k] = count
        else:
            whole = tir.const(extent, "int64") if isinstance(extent, int) else extent
            start, out[k] = symbolic_slice(whole, known[0], known[1], s)
        starts[k] = (start, s)

    def element(*i: Var) -> Any:
        index = list(i)
        for k, (start, step) in starts.items():
            index[k] = (i[k] if step == 1 else i[k] * step) + start
        return a(*index)

    return _injective(out, element, "T_strided_slice")


def dynamic_strided_slice(
    a: te.Tensor, begin: te.Tensor, end: te.Tensor, strides: te.Tensor, output_shape: Sequence[Dim]
) -> te.Tensor:
    """a[begin:end:strides] along the leading axes, with bounds that are data. output_shape: the shape that they give, which only the
    program that computes them knows. Negative bounds count from the end."""
    del end
    shape, out = shape_of(a), [as_int(d) for d in output_shape]
    count = get_const_int(begin.shape[0])

    def element(*i: Var) -> Any:
        index: list[Any] = list(i)
        for k in range(count):
            extent = to(shape[k], begin.dtype)
            first: Any = begin(k)
            first = tir.Select(first < tir.const(0, begin.dtype), first + extent, first)
            step = to(strides(k), begin.dtype)
            # Bounds beyond the end are clipped: to the last element if the slice runs backwards.
            first = tir.min(first, tir.Select(step < tir.const(0, begin.dtype), extent - 1, extent))
            index[k] = first + to(i[k], begin.dtype) * step
        return a(*index)

    return _injective(out, element, "T_dynamic_strided_slice")


def tile(a: te.Tensor, reps: Sequence[int]) -> te.Tensor:
    """a repeated `reps` times along each axis, as in numpy.tile."""
    shape = shape_of(a)
    times = [1] * (len(shape) - len(reps)) + [as_int(r) for r in reps]
    own = [1] * (len(times) - len(shape)) + shape
    skip = len(times) - len(shape)

    def element(*i: Var) -> Any:
        return a(
            *[
                p if isinstance(r, int) and r == 1 else tir.floormod(p, d)
                for p, d, r in list(zip(i, own, times, strict=True))[skip:]
            ]
        )

    return _injective([as_int(d * r) for d, r in zip(own, times, strict=True)], element, "T_tile")


def repeat(a: te.Tensor, repeats: int, axis: int) -> te.Tensor:
    """Each element repeated `repeats` times in succession along `axis`, as in numpy.repeat."""
    shape = shape_of(a)
    at = normalize_axis(axis, len(shape))
    # Without repeats the result has no elements; the divisor must only be nonzero.
    times = max(repeats, 1) if isinstance(repeats, int) else tir.max(repeats, tir.const(1, repeats.dtype))
    return _injective(
        [*shape[:at], as_int(shape[at] * repeats), *shape[at + 1 :]],
        lambda *i: a(*i[:at], tir.floordiv(i[at], times), *i[at + 1 :]),
        "T_repeat",
    )


def flip(a: te.Tensor, axis: int = 0) -> te.Tensor:
    """a in reverse order along `axis`."""
    shape = shape_of(a)
    at = normalize_axis(axis, len(shape))
    return _injective(shape, lambda *i: a(*i[:at], shape[at] - 1 - i[at], *i[at + 1 :]), "T_flip")


def arange_extent(start: Any, stop: Any, step: Any) -> Any:
    """The number of values of start, start + step, ... before stop."""
    if all(isinstance(v, (int, float)) for v in (start, stop, step)):
        return max(0, int(-((start - stop) // step)))
    if not isinstance(step, (int, tir.IntImm)):
        raise ValueError(f"the step of a range with bounds that are expressions must be an integer, but is {step}")
    start, stop = [tir.const(v, "int64") if isinstance(v, int) else to(v, "int64") for v in (start, stop)]
    span, by = (stop - start, int(step)) if int(step) > 0 else (start - stop, -int(step))
    return tir.max(span if by == 1 else tir.floordiv(span + (by - 1), by), tir.const(0, "int64"))


def arange(start: float, stop: float, step: float, dtype: str) -> te.Tensor:
    """The 1-D tensor start, start + step, ... before stop."""
    number = arange_extent(start, stop, step)
    whole = "int" in dtype
    first = start
    by = step
    if isinstance(start, (int, float)):
        first, by = (int(start), int(step)) if whole else (start, step)
    return compute(
        (number,),
        lambda i: to(i, dtype) * to(by, dtype) + to(first, dtype),
        name="T_arange",
        tag=tag.INJECTIVE,
    )


def layout_axes(layout: str) -> list[tuple[str, int]]:
    """ "NCHW16c" -> [("N", 0), ("C", 0), ("H", 0), ("W", 0), ("c", 16)]: axis letters; a lower-case letter is a block of the given
    size."""
    axes = re.findall(r"(\d*)([A-Za-z])", layout)
    if "".join(a + b for a, b in axes) != layout:
        raise ValueError(
            f"{layout!r} is not a layout: it must be axis letters, with a size before every lower-case one, as in NCHW16c"
        )
    for size, letter in axes:
        if letter.islower() != bool(size):
            raise ValueError(
                f"{layout!r} is not a layout: a block axis is a lower-case letter after its size, as in 16c; found {size + letter}"
            )
    return [(letter, int(size) if size else 0) for size, letter in axes]


def spatial_axes(layout: str, letters: str = "HW") -> list[int]:
    """The positions of the spatial letters in a layout. Raises ValueError if one is missing or blocked."""
    names = [letter for letter, _ in layout_axes(layout)]
    for letter in letters:
        if letter not in names or letter.lower() in names:
            raise ValueError(f"pooling needs {', '.join(letters)} as whole axes of the layout, but it is {layout}")
    return [names.index(letter) for letter in letters]


def layout_shape(shape: Sequence[Dim], src: str, dst: str) -> list[Dim]:
    """The shape in layout `dst` of data with `shape` in layout `src`. Blocked axes are rounded up."""
    total: dict[str, Dim] = {}
    for (letter, _), d in zip(layout_axes(src), shape, strict=True):
        key = letter.upper()
        total[key] = d if key not in total else total[key] * d
    blocks: dict[str, int] = {}
    for letter, size in layout_axes(dst):
        if letter.islower():
            blocks[letter.upper()] = blocks.get(letter.upper(), 1) * size
    return [
        size if letter.islower() else as_int(ceil_div(total[letter], blocks.get(letter, 1)))
        for letter, size in layout_axes(dst)
    ]


def layout_transform(array: te.Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None") -> te.Tensor:
    """array converted from one layout to another, for example NCHW to NCHW16c. Elements past the end of an axis are zeros.
    schedule_rule: a schedule rule that the stage names in its attributes."""
    if src_layout == dst_layout:
        return array
    shape = shape_of(array)
    src, dst = layout_axes(src_layout), layout_axes(dst_layout)
    if sorted({s.upper() for s, _ in src}) != sorted({s.upper() for s, _ in dst}):
        raise ValueError(f"layouts {src_layout} and {dst_layout} have different axes")
    out = layout_shape(shape, src_layout, dst_layout)

    def element(*i: Var) -> Any:
        # The position along each primal axis from its parts in the destination, outermost first; then its parts in the source.
        value: dict[str, PrimExpr] = {}
        for (letter, size), p in zip(dst, i, strict=True):
            key = letter.upper()
            value[key] = p if key not in value else value[key] * size + p
        index: list[Any] = [None] * len(src)
        for key, v in value.items():
            places = [k for k, (s, _) in enumerate(src) if s.upper() == key]
            for k in reversed(places[1:]):
                index[k] = tir.floormod(v, src[k][1])
                v = tir.floordiv(v, src[k][1])
            index[places[0]] = v
        guards = []
        for k, (letter, _) in enumerate(src):
            if letter.isupper():
                capacity: Dim = 1
                for (s, size), d in zip(dst, out, strict=True):
                    if s.upper() == letter:
                        capacity = capacity * (size if s.islower() else d)
                own: Dim = shape[k]
                for s, size in src:
                    if s.islower() and s.upper() == letter:
                        own = own * size
                if not known_equal(capacity, own):
                    guards.append(k)
        if not guards:
            return array(*index)
        inside, zero = tir.all(*[index[k] < shape[k] for k in guards]), tir.const(0, array.dtype)
        if any([not isinstance(shape[k], int) or shape[k] < 1 for k in guards]):
            return tir.if_then_else(inside, array(*index), zero)
        # Reads past the end are clamped, since reads without a condition can be vectorised.
        for k in guards:
            index[k] = tir.min(index[k], shape[k] - 1)
        return tir.Select(inside, array(*index), zero)

    attrs = {} if schedule_rule == "None" else {"schedule_rule": schedule_rule}
    return compute(out, element, name="T_layout_trans", tag=tag.INJECTIVE, attrs=attrs)


def sequence_mask(data: te.Tensor, valid_length: te.Tensor, mask_value: float = 0.0, axis: int = 0) -> te.Tensor:
    """data with `mask_value` from position valid_length[batch] on along `axis` (0 or 1; the other is the batch)."""
    return _injective(
        shape_of(data),
        lambda *i: tir.if_then_else(
            to(i[axis], valid_length.dtype) >= valid_length(i[1 - axis]), tir.const(mask_value, data.dtype), data(*i)
        ),
        "T_sequence_mask",
    )


def shape(array: te.Tensor, dtype: str = "int32") -> te.Tensor:
    """The extents of array as a 1-D tensor."""
    extents = shape_of(array)

    def element(i: Var) -> Any:
        value = to(extents[-1], dtype)
        for k in reversed(range(len(extents) - 1)):
            value = tir.Select(i == k, to(extents[k], dtype), value)
        return value

    return compute((len(extents),), element, name="T_shape", tag=tag.INJECTIVE)


def ndarray_size(array: te.Tensor, dtype: str = "int32") -> te.Tensor:
    """The number of elements as a scalar tensor."""
    return compute((), lambda: to(prod(shape_of(array)), dtype), name="T_size", tag=tag.INJECTIVE)
