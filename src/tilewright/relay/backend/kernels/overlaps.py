"""Inputs of a kernel over whose memory its output may be written, some bytes before what the kernel still reads.

Convolutions of images compute line after line, each from a few lines of the data. Once a line of results is done, no later one reads the
data above it:

    data     |  line 0  |  line 1  |  line 2  | ...
    output   |   line 0   |   line 1   | ...              begins `distance` bytes before the data
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright import te
from tilewright.ir import IntImm
from tilewright.relay.backend.kernels.tensor_facts import loads_of
from tilewright.scheduling.cost import divisors
from tilewright.topi.stages import LINES


def overlapping_inputs(
    inputs: Sequence[te.Tensor], outputs: Sequence[te.Tensor], ops: Sequence[te.ComputeOp]
) -> tuple[tuple[int, int], ...]:
    """(input, distance) for the data of a convolution that is marked by `LINES`: its memory may be used for the output, if the output
    begins so many bytes before it, or more. ops: all compute operations of the kernel, producers first. Shapes must be static."""
    marked = [op for op in ops if LINES in op.attrs]
    if len(marked) != 1 or len(outputs) != 1 or not isinstance(outputs[0].op, te.ComputeOp):
        return ()
    (sums,), (out,) = marked, outputs
    shapes = [_static(t) for t in (sums.output(0), out)]
    if any([s is None or len(s) != 4 or s[0] != 1 for s in shapes]) or shapes[0][1] != shapes[1][1]:  # type: ignore[index]
        return ()
    before, behind = _around(sums, ops)
    data = [t for t in inputs if any([t in op.input_tensors for op in before])]
    read = [t for t in data if not any([t in op.input_tensors for op in behind]) and _is_image(t)]
    made: set[te.Operation] = {sums}
    for op in behind:
        if any([t.op in made for t in op.input_tensors]):
            if not _line_by_line(op, made):
                return ()
            made.add(op)
    found = [(inputs.index(t), _distance(sums, t, out)) for t in read]
    return tuple([(k, distance) for k, distance in found if distance < prod(shapes[1]) * out.dtype.bytes])  # type: ignore[arg-type]


def _static(t: te.Tensor) -> tuple[int, ...] | None:
    return tuple([d.value for d in t.shape]) if all([isinstance(d, IntImm) for d in t.shape]) else None  # type: ignore[attr-defined]


def _is_image(t: te.Tensor) -> bool:
    shape = _static(t)
    return shape is not None and len(shape) == 4 and shape[0] == 1


def _around(sums: te.ComputeOp, ops: Sequence[te.ComputeOp]) -> tuple[list[te.ComputeOp], list[te.ComputeOp]]:
    """(the operations that widen the data of the sums, those that read the sums)."""
    first = sums.input_tensors[0].op
    before = [
        op
        for op in ops
        if op is first or (isinstance(first, te.ComputeOp) and any([t.op is op for t in first.input_tensors]))
    ]
    behind = [op for op in ops if op is not sums and op not in before]
    return before, behind


def _line_by_line(op: te.ComputeOp, made: set[te.Operation]) -> bool:
    """Whether an operation computes each line from the same line of those in `made`, and sums nothing."""
    loads = [load for load in loads_of(op) if load.producer.op in made]
    along = [len(op.axis) == len(load.indices) == 4 and load.indices[1] is op.axis[1].var for load in loads]
    return not op.reduce_axis and all(along)


def _distance(sums: te.ComputeOp, data: te.Tensor, out: te.Tensor) -> int:
    """The most bytes that are written before the first byte of data that is still read, of all bands that a schedule may choose."""
    down, top, most = [int(n) for n in sums.attrs[LINES]]
    (_, lines, *line), given = _static(out) or (), _static(data) or ()
    written, read = prod(line) * out.dtype.bytes, prod(given[2:]) * data.dtype.bytes
    bands = [(y, y + n) for n in divisors(lines, most) for y in range(0, lines, n)]
    return max([end * written - max(begin * down - top, 0) * read for begin, end in bands])


__all__ = ["overlapping_inputs"]
