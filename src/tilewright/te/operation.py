"""Operations of TE: the definitions of tensors. They are data; schedules and `create_prim_func` make loops of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import DataType, PrimExpr, Range
from tilewright.node import GRAPH, Def, Node, Visitor, derived, on, register_printer, structural_equal
from tilewright.support import lazy
from tilewright.support.errors import ProgramError
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, ProducerLoad, Reduce
from tilewright.tir.stmt import Stmt

# Constructors of operations are in a separate module, but are part of this one's public names.
lazy.declare(
    __name__,
    {
        name: f"tilewright.te.compute:{name}"
        for name in (
            "AXIS_SEPARATOR",
            "compute",
            "const",
            "extern",
            "extern_primfunc",
            "placeholder",
            "reduce_axis",
            "scan",
            "size_var",
            "thread_axis",
            "var",
        )  # fmt: skip
    }
    | {"create_prim_func": "tilewright.te.primfunc:create_prim_func"},
)
__getattr__, __dir__ = lazy.late(__name__)


class Operation(Node):
    """Base class of operations. `output(i)` is the i-th tensor, always the same object."""

    _identity = GRAPH
    _leaf = True

    name: str
    tag: str = ""
    attrs: Mapping[str, Any] = {}
    _outputs: tuple[Tensor, ...] | None = derived()
    _inputs: tuple[Tensor, ...] = derived()

    def _derive(self) -> None:
        object.__setattr__(self, "_outputs", None)
        object.__setattr__(self, "_inputs", self._find_inputs())

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        """The axes that a schedule can change, outermost first."""
        return ()

    def _output_specs(self) -> list[tuple[tuple[PrimExpr, ...], DataType]]:
        """Shape and data type of each output."""
        return []

    @property
    def num_outputs(self) -> int:
        return len(self._output_specs())

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that this operation reads, each once, in the order of first use."""
        return self._inputs

    def output(self, index: int) -> Tensor:
        return self.outputs[index]

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        if self._outputs is None:
            specs = self._output_specs()
            made = tuple([Tensor(shape, dtype, self, i) for i, (shape, dtype) in enumerate(specs)])
            object.__setattr__(self, "_outputs", made)
            return made
        return self._outputs

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self) >> 4


class PlaceholderOp(Operation, key="te.PlaceholderOp"):
    """An input."""

    shape: tuple[PrimExpr, ...] = ()
    dtype: DataType = DataType("float32")

    def _output_specs(self) -> list[tuple[tuple[PrimExpr, ...], DataType]]:
        return [(self.shape, self.dtype)]


class BaseComputeOp(Operation):
    """Base class of operations with spatial axes."""

    axis: Def[tuple[IterVar, ...]] = ()

    def _shape(self) -> tuple[PrimExpr, ...]:
        return tuple([iv.dom.extent for iv in self.axis if iv.dom is not None])


class ComputeOp(BaseComputeOp, key="te.ComputeOp"):
    """Each output element as an expression of its indices; `body` has one expression per output."""

    body: tuple[PrimExpr, ...] = ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return (*self.axis, *self.reduce_axis)

    def _output_specs(self) -> list[tuple[tuple[PrimExpr, ...], DataType]]:
        shape = self._shape()
        return [(shape, e.dtype) for e in self.body]

    def _find_inputs(self) -> tuple[Tensor, ...]:
        if not self.body:
            raise ValueError(f"compute {self.name!r} has no body: the function must return at least one expression")
        finder = _InputFinder(self.name)
        first = self.body[0]
        if isinstance(first, Reduce):
            self._need_one_reduction(first)
            finder.visit_children(first)
            return tuple(finder.found)
        for expr in self.body:
            finder.visit(expr)
        return tuple(finder.found)

    def _need_one_reduction(self, first: Reduce) -> None:
        # The parts of one tuple reduction are the same node but for `value_index`.
        for i, expr in enumerate(self.body):
            same = isinstance(expr, Reduce) and expr.value_index == i and _equal(expr.combiner, first.combiner)
            if not same:
                raise ValueError(
                    f"compute {self.name!r}: its first output is a reduction, so all outputs must be the parts of that one"
                    f" reduction in order, but output {i} is {expr}"
                )
        seen = [a.var for a in (*self.axis, *first.axis)]
        for i, var in enumerate(seen):
            if var in seen[:i]:
                raise ValueError(f"compute {self.name!r}: axis {var.name} is reduced over twice")


class TensorComputeOp(BaseComputeOp, key="te.TensorComputeOp"):
    """A call of a tensor intrinsic at each point of the first `schedulable_ndim` axes and of `reduce_axis`.

    `input_regions` holds, for each of `inputs`, the part that one call reads. A call writes the remaining axes.
    """

    reduce_axis: Def[tuple[IterVar, ...]] = ()
    schedulable_ndim: int = 0
    intrin: Any = None
    inputs: tuple[Tensor, ...] = ()
    input_regions: tuple[tuple[Range, ...], ...] = ()
    scalar_inputs: tuple[PrimExpr, ...] = ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return (*self.axis[: self.schedulable_ndim], *self.reduce_axis)

    def _output_specs(self) -> list[tuple[tuple[PrimExpr, ...], DataType]]:
        shape = self._shape()
        return [(shape, b.dtype) for b in self.intrin.buffers[len(self.intrin.op.input_tensors) :]]

    def _find_inputs(self) -> tuple[Tensor, ...]:
        finder = _InputFinder(self.name)
        finder.found.update(dict.fromkeys(self.inputs))
        for region in self.input_regions:
            for r in region:
                finder.visit(r.min)
        for e in self.scalar_inputs:
            finder.visit(e)
        return tuple(finder.found)


def _equal(a: Node, b: Node) -> bool:
    return a is b or structural_equal(a, b)


class ExternOp(Operation, key="te.ExternOp"):
    """A statement over buffers. `input_placeholders` stand for `inputs`, `output_placeholders` for the outputs."""

    inputs: tuple[Tensor, ...] = ()
    input_placeholders: tuple[Buffer, ...] = ()
    output_placeholders: tuple[Buffer, ...] = ()
    body: Stmt | None = None

    def _output_specs(self) -> list[tuple[tuple[PrimExpr, ...], DataType]]:
        return [(b.shape, b.dtype) for b in self.output_placeholders]

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))


class HybridOp(ExternOp, key="te.HybridOp"):
    """An operation made from a Python function. `axis` are its loops, in the order in which they begin."""

    axis: tuple[IterVar, ...] = ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return self.axis


class ScanOp(Operation, key="te.ScanOp"):
    """A recurrence along `scan_axis`, the first dimension of every state tensor.

    `init` computes the first steps, `update` computes step t from `state_placeholder` at steps before t.
    """

    scan_axis: IterVar | None = None
    init: tuple[Tensor, ...] = ()
    update: tuple[Tensor, ...] = ()
    state_placeholder: tuple[Tensor, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    spatial_axis_: tuple[IterVar, ...] = ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return () if self.scan_axis is None else (self.scan_axis,)

    def _output_specs(self) -> list[tuple[tuple[PrimExpr, ...], DataType]]:
        return [(t.shape, t.dtype) for t in self.state_placeholder]

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.init, *self.update)))


class _InputFinder(Visitor):
    """Collects the tensors that an expression loads, and checks that no reduction is nested in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[Tensor, None] = {}

    @on(ProducerLoad)
    def _load(self, load: ProducerLoad) -> None:
        producer = load.producer
        if isinstance(producer, Tensor):
            self.found[producer] = None
        for index in load.indices:
            self.visit(index)

    @on(Reduce)
    def _reduce(self, reduce: Reduce) -> None:
        raise ProgramError(
            f"compute {self.name!r}: reductions are only allowed at the top level of a compute, but one stands"
            f" inside an expression: {reduce}; make it a tensor of its own and use that tensor"
        )


register_printer(Tensor, lambda t: f"Tensor(shape={list(t.shape)}, op.name={t.op.name})")
register_printer(PlaceholderOp, lambda op: f"placeholder({op.name}, shape={list(op.shape)}, dtype={op.dtype})")
register_printer(
    ComputeOp,
    lambda op: f"compute({op.name}, body={list(op.body)}, axis={list(op.axis)}, reduce_axis={list(op.reduce_axis)})",
)
register_printer(
    TensorComputeOp,
    lambda op: (
        f"tensor_compute({op.name}, intrin={getattr(op.intrin, 'name', op.intrin)}, inputs={list(op.inputs)}, axis={list(op.axis)})"
    ),
)
register_printer(ExternOp, lambda op: f"extern({op.name}, inputs={list(op.inputs)})")
register_printer(ScanOp, lambda op: f"scan({op.name}, state={list(op.state_placeholder)})")
