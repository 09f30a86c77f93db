"""Base of computes that are written as programs, since they visit a tensor in a certain order: sorting, running sums, scattering.

Each is an extern operation whose body is written with the IR builder. Schedules do not change its loops. The lines of a tensor
along one axis are independent and are distributed over threads. On GPUs, loops are bound to threads (`device_loops.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.tir import ir_builder
from tilewright.topi.device_loops import bound
from tilewright.topi.lang import tir
from tilewright.topi.planner import planner
from tilewright.topi.utils import Dim, prod

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr, PrimExprLike
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.stmt import Stmt


_placed: ContextVar[Callable[[Stmt], Stmt] | None] = ContextVar("placed", default=None)


@contextmanager
def placed(change: Callable[[Stmt], Stmt]) -> Iterator[None]:
    """In `with placed(change):`, programs are `change` of their statements, which have parallel loops wherever lines are independent."""
    token = _placed.set(change)
    try:
        yield
    finally:
        _placed.reset(token)


def program(
    shapes: Sequence[Sequence[Dim]],
    dtypes: Sequence[str],
    inputs: Sequence[te.Tensor],
    body: Callable[..., None],
    name: str,
    scratch: Sequence[tuple[Sequence[Dim], str]] = (),
) -> list[te.Tensor]:
    """Tensors of `shapes`, filled by `body(builder, *inputs, *outputs, *scratch)`, which gets buffers to index.

    scratch: shapes and dtypes of temporary buffers for the body.
    """

    threads = planner().threads()

    def generate(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        body(ib, *[ib.buffer_ptr(b) for b in (*ins, *outs)])
        change = _placed.get()
        if change is None and threads:
            return bound(ib.get(), threads)
        return ib.get() if change is None else change(ib.get())

    every = [list(s) for s in (*shapes, *[s for s, _ in scratch])]
    made = te.extern(every, list(inputs), generate, name=name, dtype=[*dtypes, *[d for _, d in scratch]])
    return list(made)[: len(shapes)] if isinstance(made, (list, tuple)) else [made]


def loop_kind(*shape: Dim) -> str:
    """The kind of an outer loop over this many elements: parallel if there are enough, else serial."""
    total = prod(shape)
    return (
        "parallel"
        if _placed.get() is not None or not isinstance(total, int) or planner().in_threads(total)
        else "serial"
    )


class Lines:
    """The lines of a tensor of `shape` along `axis`: `count` lines of `length` elements."""

    def __init__(self, shape: Sequence[Dim], axis: int) -> None:
        self.shape, self.axis = list(shape), axis
        self.rest = [d for i, d in enumerate(shape) if i != axis]
        self.count, self.length = prod(self.rest), shape[axis]

    def index(self, line: PrimExprLike, k: Any) -> tuple[Any, ...]:
        """The index of element k of a line."""
        found: list[PrimExpr] = unflatten(line, self.rest)
        found.insert(self.axis, k)
        return tuple(found)

    def each(self, ib: ir_builder.IRBuilder, weight: Dim = 1) -> Any:
        """A loop over all lines, parallel if there is enough work. weight: the work for one element."""
        return ib.for_range(0, self.count, "line", kind=loop_kind(self.count, self.length, weight))


def unflatten(flat: Any, shape: Sequence[Dim]) -> list[PrimExpr]:
    """The index of an element from its row-major position. Extents of 1 need no arithmetic."""
    found: list[PrimExpr] = []
    for i in range(len(shape) - 1, -1, -1):
        d = shape[i]
        if isinstance(d, int) and d == 1:
            found.insert(0, tir.const(0, "int32"))
        elif i == 0 or all(isinstance(e, int) and e == 1 for e in shape[:i]):
            found.insert(0, flat)
            flat = tir.const(0, "int32")
        else:
            found.insert(0, tir.floormod(flat, d))
            flat = tir.floordiv(flat, d)
    return found


def local(ib: ir_builder.IRBuilder, dtype: str, value: PrimExprLike, name: str) -> Any:
    """A variable `v` that the body can assign as `v[0]`."""
    made = ib.allocate(dtype, (1,), name=name, scope="local")
    made[0] = tir.const(value, dtype) if isinstance(value, (int, float)) else value
    return made


def copy(ib: ir_builder.IRBuilder, source: Any, target: Any, shape: Sequence[Dim]) -> None:
    """Emits a copy of a whole tensor."""
    if not shape:
        target[()] = source[()]
        return
    if planner().threads():
        # Neighbouring threads copy neighbours.
        with ib.for_range(0, prod(shape), "k", kind="parallel") as k:
            index = tuple(unflatten(k, shape))
            target[index] = source[index]
        return
    rows = prod(shape[:-1])
    with ib.for_range(0, rows, "row", kind=loop_kind(*shape)) as r, ib.for_range(0, shape[-1], "k") as k:
        index = (*unflatten(r, shape[:-1]), k)
        target[index] = source[index]
