"""Inputs of kernels that are measured, and what their outputs must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.node import nodes_of
from tilewright.runtime.dtype import to_numpy_dtype
from tilewright.support.errors import TVMError
from tilewright.tir import Block, Buffer, BufferStore, IntImm, PrimFunc
from tilewright.tuning.measure import Argument, Signature

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Of results whose sums run in another order; of types with fewer bits than these: 0.5. Integers are equal."""

Values = np.ndarray[Any, Any]


def kernel_of(program: IRModule) -> PrimFunc:
    """The single function of a program. Raises TVMError if it has none or several."""
    functions = list(program.functions.values())
    if len(functions) != 1 or not isinstance(functions[0], PrimFunc):
        raise TVMError(f"a kernel is a module with a single PrimFunc, but this one has {len(functions)} functions")
    return functions[0]


def signature_of(program: IRModule) -> Signature:
    """The parameters of a kernel, and which of them it writes. Raises TVMError for those that are no buffers of static shapes."""
    func = kernel_of(program)
    buffers = _buffers(func)
    written = {store.buffer.data for store in nodes_of(func.body, BufferStore)}
    written |= {region.buffer.data for block in nodes_of(func.body, Block) for region in block.writes}
    outputs = tuple([i for i, buffer in enumerate(buffers) if buffer.data in written])
    return Signature(tuple([_argument(buffer) for buffer in buffers]), outputs)


def random_input(argument: Argument, random: np.random.Generator) -> Values:
    """Values for a parameter: floats from [-1, 1); integers of 8 and 16 bits from all of their range; 0 and 1 for longer ones, which may be
    indices of short axes."""
    dtype = to_numpy_dtype(argument.dtype)
    if argument.dtype == "bool":
        return random.integers(0, 2, argument.shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if info.bits <= 16 else (0, 1)
        return random.integers(low, high, argument.shape, dtype=dtype, endpoint=True)
    return random.uniform(-1, 1, argument.shape).astype(dtype)


def random_inputs(signature: Signature, seed: int = 0) -> list[Values]:
    """Values for all parameters of a kernel, the same for the same seed, or those that its signature has. Outputs have values too:
    there are kernels that add to them."""
    if signature.values:
        return [
            np.frombuffer(held, to_numpy_dtype(argument.dtype)).reshape(argument.shape).copy()
            for argument, held in zip(signature.arguments, signature.values, strict=True)
        ]
    random = np.random.default_rng(seed)
    return [random_input(argument, random) for argument in signature.arguments]


def difference(signature: Signature, found: Sequence[Values], expected: Sequence[Values]) -> str:
    """What is wrong in the outputs of a kernel; "" if nothing is. Floats may differ by TOLERANCES of their size and of the mean size of
    all; infinities and NaN are equal to themselves."""
    for place, a, b in zip(signature.outputs, found, expected, strict=True):
        dtype = signature.arguments[place].dtype
        tolerance = TOLERANCES.get(dtype, 0.5) if "float" in dtype else 0.0
        wide = np.float64 if tolerance else a.dtype
        a, b = a.astype(wide), b.astype(wide)
        sizes = np.abs(b[np.isfinite(b)]) if tolerance else b
        allowed = tolerance * float(sizes.mean()) if tolerance and sizes.size else 0.0
        # Much faster than what follows, and stricter: most outputs agree so.
        if tolerance and a.size and bool(np.abs(a - b).max() <= allowed):
            continue
        wrong = ~np.isclose(a, b, rtol=tolerance, atol=allowed, equal_nan=True) if tolerance else a != b
        if wrong.any():
            first = tuple([int(i) for i in np.argwhere(wrong)[0]])
            return (
                f"{int(wrong.sum())} of {wrong.size} elements of output {place} differ from those of the untuned kernel;"
                f" the first is {list(first)}: {a[first]} instead of {b[first]}"
            )
    return ""


def _buffers(func: PrimFunc) -> list[Buffer]:
    missing = [p.name for p in func.params if p not in func.buffer_map]
    if missing:
        raise TVMError(f"a kernel that is tuned has only buffers as parameters, but {', '.join(missing)} is a number")
    return [func.buffer_map[p] for p in func.params]


def _argument(buffer: Buffer) -> Argument:
    shape = [int(d.value) for d in buffer.shape if isinstance(d, IntImm)]
    if len(shape) != len(buffer.shape):
        raise TVMError(
            f"a kernel that is tuned has static shapes, but its buffer {buffer.name} has {list(buffer.shape)}"
        )
    return Argument(tuple(shape), str(buffer.dtype))
