"""Memory as values of a program: storages, tensors in them, and calls that write to tensors (classic `memory.*` and `vm.*`
operators).

The passes ManifestAlloc, MemoryPlan and ManifestLifetimes insert them. A storage is a one-dimensional tensor of bytes; a tensor in
it is a view. The value of a call is the empty tuple; its results are in the tensors that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import DataType, FuncType, TensorType, TupleType, Type
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import OPAQUE, OpCard, constructor, need
from tilewright.relay.cards.relations import tensor, tensor_type
from tilewright.relay.expr import Constant, Expr, Function, Var
from tilewright.relay.functor import substitute
from tilewright.runtime import cpu
from tilewright.target.virtual_device import VirtualDevice
from tilewright.tir import Any as AnyDim

BYTES = DataType("uint8")


def tensors_of(t: Type) -> list[Type]:
    """The tensor types in a type, including those in nested tuples."""
    return [x for f in t.fields for x in tensors_of(f)] if isinstance(t, TupleType) else [t]


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays in a value of the interpreter."""
    return [x for v in value for x in leaves(v)] if isinstance(value, (tuple, list)) else [value]


class alloc_storage(OpCard, key="memory.alloc_storage"):
    """Memory of `size` bytes on a device, aligned to `alignment`, for elements of `dtype_hint`. shape: the shape for which it was
    allocated."""

    fuse, pure, flat = OPAQUE, False, True
    virtual_device: VirtualDevice = VirtualDevice(cpu(0))
    dtype_hint: DataType = DataType("float32")

    def infer(self, size: TensorType, shape: TensorType, alignment: TensorType) -> Type:
        for i, (t, what) in enumerate(((size, "size"), (shape, "shape"), (alignment, "alignment"))):
            t = tensor(t, i)
            need(t.dtype.is_int or t.dtype.is_uint, f"the {what} of a storage must be integers", f"it is {t}", i)
        return TensorType((AnyDim(),), BYTES)

    def ref(self, size: Any, shape: Any, alignment: Any) -> np.ndarray:
        return np.zeros(int(size), np.uint8)


class alloc_tensor(OpCard, key="memory.alloc_tensor"):
    """A tensor in a storage, from byte `offset` on. Its shape is `const_shape` if that is known, else `shape`; `assert_shape` holds
    the dimensions that are known."""

    fuse, pure, flat = OPAQUE, False, True
    const_shape: Any = None
    assert_shape: tuple[Any, ...] = ()
    dtype: DataType = DataType("float32")

    def infer(self, storage: TensorType, offset: TensorType, shape: TensorType) -> Type:
        found = tensor(storage, 0)
        need(
            found.dtype == BYTES and len(found.shape) == 1,
            "a tensor lies in a storage",
            f"the first argument is {found}",
            0,
        )
        if self.const_shape is not None:
            return tensor_type(tuple(self.const_shape), self.dtype)
        if self.assert_shape:
            return TensorType(tuple(self.assert_shape), self.dtype)
        (rank,) = tensor(shape, 2).concrete_shape
        return TensorType(tuple([AnyDim() for _ in range(rank)]), self.dtype)

    def ref(self, storage: Any, offset: Any, shape: Any) -> np.ndarray:
        dtype = np.dtype(numpy_dtype(self.dtype))
        extents = [int(d) for d in np.asarray(shape).reshape(-1)]
        end = int(offset) + int(np.prod(extents, dtype=np.int64)) * dtype.itemsize
        if end > len(storage):
            raise ValueError(f"the tensor ends at byte {end} of a storage of {len(storage)}")
        view: np.ndarray = storage[int(offset) : end].view(dtype).reshape(extents)
        return view


class kill(OpCard, key="memory.kill"):
    """Marks the end of the lifetime of `data`."""

    fuse, pure, flat = OPAQUE, False, True

    def infer(self, data: Type) -> Type:
        return TupleType(())

    def ref(self, data: np.ndarray) -> tuple[()]:
        return ()


class vm_shape_of(OpCard, key="vm.shape_of"):
    """The shape of a tensor at run time."""

    flat = True
    dtype: DataType = DataType("int64")
    expand_in = "CanonicalizeOps"
    samples = [(((2, 3),), {}), (((4,),), {"dtype": "int32"})]

    def infer(self, data: TensorType) -> Type:
        return tensor_type((len(tensor(data, 0).shape),), self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.array(data.shape, self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.shape(data, self.dtype)

    def expand(self, data: Expr) -> Expr:
        return constructor("shape_of")(data, dtype=self.dtype)


class vm_reshape_tensor(OpCard, key="vm.reshape_tensor"):
    """`data` in the shape that the second argument holds. newshape: the dimensions that are known."""

    newshape: tuple[Any, ...]
    expand_in = "CanonicalizeOps"
    samples = [(((2, 3), ((2,), "int64")), {"newshape": (3, 2)})]

    def infer(self, data: TensorType, shape: TensorType) -> Type:
        return TensorType(tuple(self.newshape), tensor(data, 0).dtype)

    def ref(self, data: np.ndarray, shape: np.ndarray) -> np.ndarray:
        if self.known:
            return data.reshape([int(d) for d in self.newshape])
        return data.reshape([int(d) for d in shape])

    def compute(self, data: te.Tensor, shape: te.Tensor) -> te.Tensor:
        return topi.reshape(data, tuple(self.newshape))

    @property
    def known(self) -> bool:
        """Whether all of the shape is known."""
        return all([isinstance(d, int) or hasattr(d, "value") for d in self.newshape])

    def expand(self, data: Expr, shape: Expr) -> Expr:
        return constructor("reshape")(data, [int(d) for d in self.newshape] if self.known else shape)


class invoke_tvm_op(OpCard, key="vm.invoke_tvm_op"):
    """Calls a primitive function on the tensors of the tuple `inputs`. It writes its results to those of the tuple `outputs`."""

    fuse, pure, flat = OPAQUE, False, True

    def infer(self, func: Type, inputs: Type, outputs: Type) -> Type:
        need(isinstance(func, FuncType), "the first argument must be a function", f"it is {func}", 0)
        need(isinstance(inputs, TupleType), "the inputs must be a tuple", f"they are {inputs}", 1)
        need(isinstance(outputs, TupleType), "the outputs must be a tuple", f"they are {outputs}", 2)
        assert isinstance(func, FuncType) and isinstance(inputs, TupleType) and isinstance(outputs, TupleType)
        for given, taken, what, place in (
            (len(inputs.fields), len(func.arg_types), "inputs", 1),
            (len(outputs.fields), len(tensors_of(func.ret_type)), "outputs", 2),
        ):
            need(given == taken, f"the function has {taken} {what}", f"the tuple holds {given}", place)
        return TupleType(())

    def ref(self, func: Any, inputs: Any, outputs: Any) -> Any:
        for out, value in zip(outputs, leaves(func(*inputs)), strict=True):
            if out.shape != value.shape:
                raise ValueError(f"a result has the shape {value.shape}, but the tensor for it {out.shape}")
            out[...] = value
        return ()


class shape_func(OpCard, key="vm.shape_func"):
    """Writes the shapes of a primitive function's results to the tensors of the tuple `outputs`. inputs: for each argument the
    tensor itself (if `is_input`) or its shape."""

    fuse, pure, flat = OPAQUE, False, True
    is_input: tuple[Any, ...]

    def infer(self, func: Type, inputs: Type, outputs: Type) -> Type:
        need(isinstance(func, FuncType), "the first argument must be a function", f"it is {func}", 0)
        need(isinstance(inputs, TupleType), "the inputs must be a tuple", f"they are {inputs}", 1)
        need(isinstance(outputs, TupleType), "the outputs must be a tuple", f"they are {outputs}", 2)
        return TupleType(())

    def ref(self, func: Any, inputs: Any, outputs: Any) -> Any:
        types = tensors_of(func.function.body.checked_type)
        if all([bool(flag) for flag in self.is_input]):
            shapes: Sequence[Any] = [v.shape for v in leaves(func(*inputs))]
        else:
            shapes = self.by_types(func.function, inputs)
        for out, shape, t in zip(outputs, shapes, types, strict=True):
            if len(shape) != len(out):
                raise ValueError(
                    f"{t} has {len(shape)} dimensions, but the tensor for its shape has {len(out)} elements"
                )
            out[...] = shape
        return ()

    def by_types(self, function: Any, inputs: Any) -> list[list[int]]:
        """The shapes, by the type rules of the operators."""
        from tilewright.relay.typing.infer_type import infer_types

        params = [
            Var(p.name_hint, _with_shape(p.checked_type, value, bool(data)))
            for p, value, data in zip(function.params, inputs, self.is_input, strict=True)
        ]
        body = substitute(function.body, dict(zip(function.params, params, strict=True)))
        made = infer_types(Function(tuple(params), body, None, (), function.attrs))
        assert isinstance(made, FuncType)
        return [list(tensor(t).concrete_shape) for t in tensors_of(made.ret_type)]


def _with_shape(t: Type, value: Any, is_data: bool) -> Type:
    """The type with the shape that a value has, or holds."""
    if isinstance(t, TupleType):
        return TupleType(tuple([_with_shape(f, v, is_data) for f, v in zip(t.fields, value, strict=True)]))
    assert isinstance(t, TensorType)
    extents = np.asarray(value).shape if is_data else [int(d) for d in value]
    return tensor_type(extents, t.dtype)


def known_shape(shape: Any) -> tuple[int, ...] | None:
    """The extents in a constant; None for other expressions."""
    return tuple([int(d) for d in shape.value.reshape(-1)]) if isinstance(shape, Constant) else None
