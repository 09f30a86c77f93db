"""Tensors of TE: outputs of operations. Indexing gives a ProducerLoad; arithmetic works element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.node import GRAPH, Node
from tilewright.support import lazy
from tilewright.tir.expr import IterVar, ProducerLoad

if TYPE_CHECKING:
    from tilewright.te.operation import Operation

# Operations are in a separate module, but are part of this one's public names.
lazy.declare(
    __name__,
    {
        name: f"tilewright.te.operation:{name}"
        for name in (
            "BaseComputeOp",
            "ComputeOp",
            "ExternOp",
            "HybridOp",
            "Operation",
            "PlaceholderOp",
            "ScanOp",
            "TensorComputeOp",
        )  # fmt: skip
    }
    | {"TensorIntrinCall": "tilewright.te.tensor_intrin:TensorIntrinCall"},
)
__getattr__, __dir__ = lazy.late(__name__)

UNCHECKED = "unchecked_indices"
"""The attribute of operations whose tensors may be indexed as if they had other shapes: such computes are rewritten later."""
Elementwise = Callable[[str, Any, Any], Any]


def _missing(name: str, lhs: Any, rhs: Any) -> Any:
    raise TypeError(f"no implementation of tensor {name} is installed")


_elementwise: Elementwise = _missing


def install_elementwise(implementation: Elementwise) -> Elementwise:
    """Set the implementation `implementation(name, lhs, rhs)` of tensor operators, and return the one before it.

    `name` is one of add, subtract, multiply, divide, floor_divide, mod, power, negative (rhs None).
    """
    global _elementwise
    previous, _elementwise = _elementwise, implementation
    return previous


class TensorOperators:
    """Python's arithmetic on tensors. Every operator makes a new element-wise compute."""

    __slots__ = ()
    # Tells the operators of expressions to leave `expr + tensor` to the tensor.
    _reflects_operators = True

    def __add__(self, other: Any) -> Any:
        return _elementwise("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _elementwise("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _elementwise("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _elementwise("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _elementwise("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _elementwise("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _elementwise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _elementwise("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _elementwise("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _elementwise("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return _elementwise("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _elementwise("mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return _elementwise("power", self, other)

    def __neg__(self) -> Any:
        return _elementwise("negative", self, None)


class Tensor(Node, TensorOperators, key="te.Tensor"):
    """Output `value_index` of `op`: a multi-dimensional value of `shape` and `dtype`.

    `t[i, j]` with as many indices as dimensions is a ProducerLoad. With fewer indices it is a TensorSlice.
    """

    _identity = GRAPH
    _leaf = True

    shape: tuple[PrimExpr, ...]
    dtype: DataType
    op: Operation
    value_index: int = 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """The name of the operation; with `.v<i>` if the operation has several outputs."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The spatial axes of the compute that makes this tensor."""
        axes: tuple[IterVar, ...] = self.op.axis  # type: ignore[attr-defined]
        return axes

    def __call__(self, *indices: Any) -> ProducerLoad:
        if len(indices) != len(self.shape) and UNCHECKED not in self.op.attrs:
            raise ValueError(
                f"tensor {self.name} has {len(self.shape)} dimensions, but was indexed with {len(indices)}:"
                f" {', '.join(str(i) for i in indices)}"
            )
        load = ProducerLoad(self, tuple([i.var if isinstance(i, IterVar) else i for i in indices]))
        for place, index in enumerate(load.indices):
            if index.dtype.code not in ("int", "uint", "bool"):
                raise TypeError(f"tensor {self.name}: index {place} must be an integer, but is {index.dtype}: {index}")
        return load

    def __getitem__(self, indices: Any) -> ProducerLoad | TensorSlice:
        if not isinstance(indices, tuple):
            indices = tuple(indices) if isinstance(indices, list) else (indices,)
        few = len(indices) < len(self.shape) and UNCHECKED not in self.op.attrs
        if few or any([isinstance(i, slice) for i in indices]):
            return TensorSlice(self, indices)
        return self(*indices)

    def __iter__(self) -> Iterator[ProducerLoad | TensorSlice]:
        return _along_first_axis(self, self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return False
        return self is other or (self.op is other.op and self.value_index == other.value_index)

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __bool__(self) -> bool:
        return True


def _along_first_axis(of: Tensor | TensorSlice, shape: Sequence[Any]) -> Iterator[ProducerLoad | TensorSlice]:
    """The parts of a tensor for each index of its first axis. TypeError where there is none, or its extent is not constant."""
    if not shape or not isinstance(shape[0], (int, IntImm)):
        what = "has no axis left" if not shape else f"has {shape[0]} parts, a number that is not known here"
        raise TypeError(f"tensor {getattr(of, 'name', of)} cannot be iterated over: it {what}")
    return iter([of[i] for i in range(int(shape[0]))])


class TensorSlice:
    """A part of a tensor: with some leading indices (`t[i]` of a matrix, to be followed by `[j]`), or with ranges
    (`t[i, 0:16]`), as tensor intrinsics take them.
    """

    __slots__ = ("indices", "tensor")
    _reflects_operators = True

    def __init__(self, tensor: Tensor, indices: Any) -> None:
        self.tensor, self.indices = tensor, indices if isinstance(indices, tuple) else (indices,)

    def __getitem__(self, indices: Any) -> ProducerLoad | TensorSlice:
        more = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[self.indices + more]

    def __iter__(self) -> Iterator[ProducerLoad | TensorSlice]:
        return _along_first_axis(self, self.tensor.shape[len(self.indices) :])

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{', '.join([_index_text(i) for i in self.indices])}]"

    @property
    def dtype(self) -> DataType:
        return self.tensor.dtype

    def asobject(self) -> ProducerLoad:
        """The load, if all indices are given. Otherwise raises ValueError."""
        if any([isinstance(i, slice) for i in self.indices]):
            raise ValueError(f"{self!r} is a part of a tensor and no element; give every dimension an index")
        return self.tensor(*self.indices)

    def _no_element(self, *_: Any) -> Any:
        return self.asobject()

    # Arithmetic needs elements. For a part of a tensor, the error names the missing index.
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_element
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _no_element
    astype = _no_element


def _index_text(index: Any) -> str:
    if not isinstance(index, slice):
        return str(index)
    return f"{'' if index.start is None else index.start}:{'' if index.stop is None else index.stop}"
