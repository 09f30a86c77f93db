"""Running sums and products along an axis, in one pass. Threads share the lines, and adjacent lines run in one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.device_loops import threads_of
from tilewright.topi.lang import tir
from tilewright.topi.loops import local, loop_kind, program, unflatten
from tilewright.topi.planner import planner
from tilewright.topi.scanned_lines import scan_line
from tilewright.topi.utils import as_int, normalize_axis, prod, shape_of, to
from tilewright.topi.vector_scan import LANES, scan_in_vectors

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import BufferVar


TOGETHER = 8
"""The number of lines that run side by side: an addition needs the one before it in its line, which takes four cycles, and two can begin in
each cycle. On Zen 4 an element takes 0.35 ns so, 0.5 ns in vectors along its line, and 0.8 to 1.1 ns alone."""
SHORT = 8
"""Elements of a line up to which it is over before that matters."""
LONG = 1024
"""Elements of a line up to which memory is read in order, and not line beside line, where data is larger than caches: 0.5 instead of 1.2
to 1.4 ns."""
CACHED = 1 << 19
"""Elements up to which caches hold them."""
SHARED = 16
"""The least number of groups of lines that threads share."""


def scanop(
    data: te.Tensor,
    binop: Callable[[Any, Any], Any],
    identity_value: Any,
    op_name: str,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> te.Tensor:
    """For each element, binop of all elements up to it along `axis` (of the flattened data if None), in `dtype`. exclusive: without the
    element itself; the first result is `identity_value`."""
    if axis is None:
        from tilewright.topi.transform import reshape

        data, axis = reshape(data, [prod(shape_of(data))]), 0
    result = dtype or data.dtype
    shape = shape_of(data)
    at = normalize_axis(axis, len(shape))
    outer, inner, n = shape[:at], shape[at + 1 :], shape[at]
    start = tir.const(identity_value, result) if isinstance(identity_value, (int, float)) else identity_value

    def in_vectors(ib: Any, x: BufferVar, out: BufferVar, i: list[Any]) -> None:
        """A line of adjacent elements."""
        j = [tir.const(0, "int32")] * len(inner)

        def read(k: Any) -> Any:
            value = x[(*i, k, *j)]
            return to(value, result if value.dtype.lanes == 1 else f"{result}x{value.dtype.lanes}")

        def write(k: Any, value: Any) -> None:
            out[(*i, k, *j)] = value

        scan_in_vectors(ib, as_int(n), result, start, binop, bool(exclusive), read, write)

    def body(ib: Any, x: BufferVar, out: BufferVar) -> None:
        def step(i: list[Any], k: PrimExpr, j: list[PrimExpr], before: PrimExpr) -> None:
            index = (*i, k, *j)
            out[index] = before if exclusive else binop(before, to(x[index], result))

        def lines(first: Any, number: int) -> None:
            """Lines of adjacent elements, side by side. Their running values stay in registers."""
            totals = [local(ib, result, start, "total") for _ in range(number)]
            j = [tir.const(0, "int32")] * len(inner)
            with ib.for_range(0, n, "k") as k:
                for line, total in enumerate(totals):
                    index = (*unflatten(first + line, outer), k, *j)
                    if exclusive:
                        out[index] = total[0]
                    total[0] = binop(total[0], to(x[index], result))
                    if not exclusive:
                        out[index] = total[0]

        if isinstance(prod(inner), int) and prod(inner) == 1:
            count, kind = prod(outer), loop_kind(*shape)
            number = 1
            if isinstance(count, int) and isinstance(n, int) and n > SHORT:
                # Threads share the groups of lines.
                number = max(min(TOGETHER, count if kind == "serial" else count // SHARED), 1)
                if n >= LANES and (number < TOGETHER or (n < LONG and n * count > CACHED)):
                    with ib.for_range(0, count, "o", kind=kind) as o:
                        in_vectors(ib, x, out, unflatten(o, outer))
                    return
            with ib.for_range(0, count // number, "o", kind=kind) as o:
                lines(o * number if number > 1 else o, number)
            if number > 1 and count % number:
                lines(tir.const(count - count % number, "int32"), count % number)
            return
        with ib.for_range(0, prod(outer), "o", kind=loop_kind(*shape)) as o:
            i = unflatten(o, outer)
            with ib.for_range(0, prod(inner), "j") as j:
                step(i, tir.const(0, "int32"), unflatten(j, inner), start)
            with ib.for_range(1, n, "k") as k, ib.for_range(0, prod(inner), "j") as j:
                rest = unflatten(j, inner)
                last = (*i, k - 1, *rest)
                step(i, k, rest, binop(out[last], to(x[last], result)) if exclusive else out[last])

    def by_threads(ib: Any, x: BufferVar, out: BufferVar) -> None:
        """Lines of adjacent elements, each by a block of threads; of others by a thread each, whose neighbours have adjacent lines."""
        if not (isinstance(prod(inner), int) and prod(inner) == 1):
            with ib.for_range(0, prod([*outer, *inner]), "line", kind="parallel") as line:
                place = unflatten(line, [*outer, *inner])
                i, j = place[: len(outer)], place[len(outer) :]
                total = local(ib, result, start, "total")
                with ib.for_range(0, n, "k") as k:
                    index = (*i, k, *j)
                    following = ib.let("following", binop(total[0], to(x[index], result)))
                    out[index] = total[0] if exclusive else following
                    total[0] = following
            return
        line, me = threads_of(ib, prod(outer), planner().threads())
        i, j = unflatten(line, outer), [tir.const(0, "int32")] * len(inner)
        scan_line(
            ib, me, planner().threads(), n, result, start, binop, bool(exclusive), lambda k: to(x[(*i, k, *j)], result),
            lambda k, value: out.__setitem__((*i, k, *j), value),
        )  # fmt: skip

    if any(isinstance(d, int) and d == 0 for d in shape):
        return te.compute(shape, lambda *i: start, name=op_name, tag="injective")
    return program([shape], [result], [data], by_threads if planner().threads() else body, op_name)[0]


def cumsum(
    data: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> te.Tensor:
    """Running sum along `axis` (of the flattened data if None). exclusive: without the element itself."""
    return scanop(data, lambda a, b: a + b, 0, "T_cumsum", axis, dtype, exclusive)


def cumprod(
    data: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> te.Tensor:
    """Running product along `axis` (of the flattened data if None). exclusive: without the element itself."""
    return scanop(data, lambda a, b: a * b, 1, "T_cumprod", axis, dtype, exclusive)
