"""NDArray: tensors of the runtime, sharing memory with NumPy, PyTorch and others through DLPack."""
# ruff: noqa: F811 (a parameter may be called `device`)

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.runtime import _ffi
from tilewright.runtime._ffi import NDArrayBase as NDArrayBase
from tilewright.runtime.device import Device, cpu
from tilewright.runtime.dtype import item_bytes, need_native_order, parse_dtype, to_numpy_dtype

RECYCLED = 1 << 17
"""Bytes from which on copies get memory that earlier ones gave back: what comes fresh from the system costs more to touch than to fill."""


def _fresh(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array whose elements are still to be written."""
    size = prod(shape) * dtype.itemsize
    if size < RECYCLED:
        return np.empty(shape, dtype)
    memory: NDArray = _ffi.get_global("runtime.RecycledBytes")(size)
    return memory._view().view(dtype).reshape(shape)


class NDArray(_ffi.NDArrayBase):
    """A tensor in row-major order, aligned to 64 bytes when the runtime allocated it."""

    __slots__ = ()
    __dlpack_c_exchange_api__ = _ffi.exchange_capsule

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def T(self) -> NDArray:
        """A transposed copy, on the same device."""
        return array(self.numpy().T, self.device)

    def _compact(self) -> bool:
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != step:
                return self.size == 0
            step *= extent
        return True

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array; bfloat16 and float8 as ml_dtypes."""
        if self.on_cpu and not self._compact():
            return np.array(self._view())
        code, lanes = self.dtype_code, self.dtype_code[2]
        shape = self.shape if lanes == 1 else (*self.shape, lanes)
        result = _fresh(shape, self._numpy_dtype())
        if result.size and self.on_cpu:
            _ffi.copy_memory(result.ctypes.data, self.data_address, self.size * item_bytes(code))
        elif result.size:
            _ffi.copy_tensor(self, numpyasarray(result))
        return result

    def _numpy_dtype(self) -> np.dtype[Any]:
        name = self.dtype
        return to_numpy_dtype(name.split("x")[0] if self.dtype_code[2] > 1 else name)

    def _view(self) -> np.ndarray[Any, Any]:
        """A NumPy array over the same memory. Raises ValueError where that is not the CPU's."""
        if not self.on_cpu:
            raise ValueError(f"cannot touch memory of {self.device} from the CPU; copy it with .copyto(cpu(0)) first")
        kind = self._numpy_dtype()
        integer = "|u1" if kind.itemsize == 1 else f"<u{kind.itemsize}"
        interface = {
            "shape": self.shape,
            "strides": tuple(s * kind.itemsize for s in self.strides),
            "typestr": integer if kind.itemsize <= 8 else kind.str,
            "data": (self.data_address, False),
            "version": 3,
        }
        holder = _Holder(self, interface)
        return np.asarray(holder).view(kind)

    asnumpy = numpy

    def copyfrom(self, source_array: Any) -> NDArray:
        """Copies an array of the same shape into this one; values are converted to this dtype."""
        if isinstance(source_array, NDArray):
            return source_array._copy_into(self)
        values = np.asarray(source_array)
        lanes = self.dtype_code[2]
        expected = self.shape if lanes == 1 else (*self.shape, lanes)
        if values.shape != expected:
            raise ValueError(
                f"cannot copy an array of shape {values.shape} into an NDArray of {expected}: shapes must be equal"
            )
        values = np.ascontiguousarray(values, dtype=self._numpy_dtype())
        if not self.on_cpu:
            if values.size:
                _ffi.copy_tensor(numpyasarray(values), self)
        elif not self._compact():
            self._view()[...] = values
        elif values.size:
            _ffi.copy_memory(self.data_address, values.ctypes.data, values.nbytes)
        return self

    def _copy_into(self, target: NDArray) -> NDArray:
        if self.shape != target.shape:
            raise ValueError(
                f"cannot copy an NDArray of shape {self.shape} into one of shape {target.shape}: shapes must be equal"
            )
        if self.dtype != target.dtype:
            raise ValueError(
                f"cannot copy an NDArray of dtype {self.dtype} into one of dtype {target.dtype}: dtypes must be equal"
            )
        if not (self.on_cpu and target.on_cpu):
            if self.size:
                _ffi.copy_tensor(self, target)
        elif self._compact() and target._compact():
            if self.size:
                _ffi.copy_memory(target.data_address, self.data_address, self.size * item_bytes(self.dtype_code))
        else:
            target._view()[...] = self._view()
        return target

    def copyto(self, target: NDArray | _ffi.Device, mem_scope: str | None = None) -> NDArray:
        """Copies into an array, or into a new one on a device."""
        if isinstance(target, NDArray):
            return self._copy_into(target)
        if isinstance(target, _ffi.Device):
            return self._copy_into(empty(self.shape, self.dtype, target, mem_scope))
        raise TypeError(f"copyto needs an NDArray or a Device, got {type(target).__name__}")

    def _create_view(self, shape: Sequence[int], dtype: str | None = None, relative_byte_offset: int = 0) -> NDArray:
        """An array over the same memory, with another shape and type. Raises ValueError where it would not fit."""
        kind = self.dtype_code if dtype is None else parse_dtype(dtype)
        dims = tuple(int(d) for d in shape)
        needed = int(np.prod(dims, dtype=np.int64)) * item_bytes(kind) + relative_byte_offset
        held = self.size * item_bytes(self.dtype_code)
        if not self._compact() or needed > held or relative_byte_offset < 0:
            raise ValueError(
                f"a view of shape {dims} at byte {relative_byte_offset} needs {needed} bytes of a compact array,"
                f" but {self.shape} of {self.dtype} holds {held}"
            )
        address = self.data_address + relative_byte_offset
        result: NDArray = _ffi.tensor_from_address(address, dims, None, kind, self.device, self)
        return result

    @staticmethod
    def from_dlpack(dltensor: Any) -> NDArray:
        """An NDArray over the memory of anything that speaks DLPack."""
        return from_dlpack(dltensor)

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the same memory."""
        return self.__dlpack__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Writes into the array; only the whole array, `a[:] = values`, as in classic TVM."""
        if index is not Ellipsis and not (isinstance(index, slice) and index == slice(None)):
            raise ValueError("an NDArray can only be set as a whole: a[:] = values")
        if isinstance(value, (int, float, np.number, bool)):
            value = np.full(self.shape, value, dtype=self._numpy_dtype())
        self.copyfrom(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-dimensional NDArray has no length")
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<tilewright.nd.NDArray shape={self.shape}, {self.device}>\n{self.numpy()!r}"

    def __str__(self) -> str:
        return str(self.numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        return (array, (self.numpy(),))


class _Holder:
    """Gives NumPy the memory and keeps its owner alive."""

    def __init__(self, owner: NDArray, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


_ffi.register_class(70, NDArray)


def empty(
    shape: Sequence[int] | int, dtype: Any = "float32", device: _ffi.Device | None = None, mem_scope: str | None = None
) -> NDArray:
    """An uninitialised array, aligned to 64 bytes. mem_scope: which of its memories, where a device has several."""
    dims = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(d) for d in shape)
    result: NDArray = _ffi.tensor_empty(dims, parse_dtype(dtype), device or cpu(0), mem_scope)
    return result


def array(arr: Any, device: _ffi.Device | None = None, mem_scope: str | None = None) -> NDArray:
    """A new array with a copy of the values of a NumPy array, an NDArray, a list or a number."""
    if isinstance(arr, NDArray):
        return arr.copyto(device or cpu(0), mem_scope)
    values = numeric_array(arr)
    return empty(values.shape, values.dtype, device, mem_scope).copyfrom(values)


def numeric_array(value: Any, dtype: str | None = None) -> np.ndarray[Any, Any]:
    """Converts numbers of NumPy or PyTorch to an array; with a dtype, to an array of it in row-major order. Raises TypeError for
    strings and Python objects."""
    values = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    _need_numbers(values)
    return values if dtype is None else np.asarray(values, to_numpy_dtype(dtype), order="C")


def _need_numbers(values: np.ndarray[Any, Any]) -> None:
    """Raises TypeError for strings and Python objects."""
    if values.dtype.kind in "USO":
        what = "strings" if values.dtype.kind in "US" else "Python objects"
        raise TypeError(
            f"arrays of {what} have no elements that kernels know. What takes strings takes their numbers:"
            " relay.frontend.encode_strings(...)"
        )


def numpyasarray(np_data: np.ndarray[Any, Any]) -> NDArray:
    """An NDArray over the memory of a NumPy array, which it keeps alive. Raises ValueError where the array's byte order is another
    machine's, or elements do not lie at multiples of their size, and TypeError for strings and Python objects."""
    _need_numbers(np_data)
    code = parse_dtype(np_data.dtype)
    need_native_order(np_data)
    size = np_data.dtype.itemsize
    strides = None if np_data.flags.c_contiguous else tuple(s // size for s in np_data.strides)
    if strides is not None and any(s % size for s in np_data.strides):
        raise ValueError(
            f"strides {np_data.strides} are not multiples of the element's {size} bytes; copy the array first"
        )
    result: NDArray = _ffi.tensor_from_address(np_data.ctypes.data, np_data.shape, strides, code, cpu(0), np_data)
    return result


def from_dlpack(dltensor: Any) -> NDArray:
    """An NDArray over the memory of anything that speaks DLPack: a capsule, or an object with `__dlpack__`."""
    if isinstance(dltensor, NDArray):
        return dltensor
    if isinstance(dltensor, np.ndarray):
        return numpyasarray(dltensor)
    if hasattr(dltensor, "__dlpack__"):
        used_in = _stream_for(dltensor)
        try:
            capsule = dltensor.__dlpack__(max_version=(1, 1), **used_in)
        except TypeError:  # made before DLPack 1.0
            capsule = dltensor.__dlpack__(**used_in)
    else:
        capsule = dltensor
    result: NDArray = _ffi.tensor_from_capsule(capsule)
    return result


def _stream_for(exporter: Any) -> dict[str, int]:
    """What tells the exporter of a tensor on a device of CUDA which stream will use it: that of this thread."""
    kind, number = exporter.__dlpack_device__() if hasattr(exporter, "__dlpack_device__") else (Device.kDLCPU, 0)
    return {"stream": _ffi.current_stream(Device(int(kind), number)) or 1} if kind == Device.kDLCUDA else {}


_ffi.register_class("from_dlpack", from_dlpack)
_ffi.register_class("device", Device)

# `tvm.nd.cuda(0)` and the like.
from tilewright.runtime.device import (  # noqa: E402, F401
    cl,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    mtl,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
