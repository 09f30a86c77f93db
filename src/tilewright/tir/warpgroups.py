"""Calls to the instructions that NVIDIA's GPUs have since sm_90: barriers with phases, copies of tiles (TMA), products of warpgroups
(wgmma).

A warpgroup is four warps with consecutive numbers, the first a multiple of four. Their definitions, which the interpreter follows, are in
the PTX ISA under the titles that the functions name. Barriers are those of `create_barriers`, by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.ir import DataType
from tilewright.tir.expr import Call

WARPGROUP = 128
SWIZZLES = (0, 32, 64, 128)
"""Bytes of the rows in which chunks of 16 bytes are exchanged: chunk c of such a row goes to c ^ s, where s are bits 7.. of the row's
address."""
SWIZZLE_BITS = {0: 0, 32: 1, 64: 2, 128: 3}
"""Swizzle -> how many bits of an address change, from bit 4 on, by as many from bit 7 on."""


class Product(NamedTuple):
    """One kind of wgmma: elements along k, types in PTX, sums, and whether operands may run along m or n."""

    k: int
    kind: str
    sums: tuple[str, ...]
    transposes: bool
    scales: bool


PRODUCTS = {
    "float16": Product(16, "f16", ("float32", "float16"), True, True),
    "bfloat16": Product(16, "bf16", ("float32",), True, True),
    "float32": Product(8, "tf32", ("float32",), False, True),
    "int8": Product(32, "s8", ("int32",), False, False),
    "uint8": Product(32, "u8", ("int32",), False, False),
    "float8_e4m3fn": Product(32, "e4m3", ("float32", "float16"), False, True),
    "float8_e5m2": Product(32, "e5m2", ("float32", "float16"), False, True),
}
"""Type of the operands -> its products, m64nNkK with N a multiple of 8 up to 256. ("Asynchronous warpgroup level matrix instructions")"""


def _call(dtype: str, name: str, *args: Any) -> Call:
    return Call(DataType(dtype), name, args)


# --- barriers


def ptx_wait_barrier_parity(barrier_id: Any, parity: Any) -> Call:
    """Waits until the phase of that parity of a barrier is complete: 0 for its first phase, 1 for the second one, and so on. The phase
    before the first one, of parity 1, counts as complete. ("Parallel synchronization and communication: mbarrier.try_wait")"""
    return _call("void", "ptx_wait_barrier_parity", barrier_id, parity)


def ptx_fence_barrier_init() -> Call:
    """Makes the barriers that this thread initialised known to asynchronous copies. ("membar, fence": fence.mbarrier_init)"""
    return _call("void", "ptx_fence_barrier_init")


def ptx_fence_proxy_async() -> Call:
    """Orders what this thread stored to shared memory before what asynchronous copies and products access there later. ("membar, fence":
    fence.proxy.async)"""
    return _call("void", "ptx_fence_proxy_async")


# --- copies of tiles


def tensor_map(
    dtype: str, data: Any, swizzle: int, shape: Sequence[Any], strides: Sequence[Any], box: Sequence[int]
) -> Call:
    """A description of a tensor in global memory from which boxes are copied ("Tensors: tensor-map").

    shape, box: two to five extents, the outermost first; the last dimension is compact. strides: of the others, in elements; in bytes
    they are multiples of 16, as the address is. box: up to 256 along a dimension; a row has as many bytes as the swizzle, or a multiple
    of 16 without one.
    """
    return _call(
        "handle", "tensor_map", Call(DataType(dtype), "type_annotation", ()), data, swizzle, *shape, *strides, *box
    )


def ptx_tma_load(to: Any, tensor: Any, barrier_id: Any, *coordinates: Any) -> Call:
    """Begins the copy of a box of a tensor map to shared memory, at an address that is a multiple of 128 bytes. What is outside of the
    tensor is 0. The barrier counts the bytes of the box when they are there. ("cp.async.bulk.tensor")

    coordinates: of the first element, the outermost first."""
    return _call("void", "ptx_tma_load", to, tensor, barrier_id, *coordinates)


# --- products


def ptx_wgmma(
    shape: str, a_type: str, b_type: str, c_type: str, a: Any, a_layout: Sequence[int], b: Any, b_layout: Sequence[int], c: Any, c_offset:
    Any, adds: Any = True
) -> Call:  # fmt: skip
    """Begins C[64, N] += A[64, K] * B[K, N] of a warpgroup, with both operands in shared memory ("wgmma.mma_async").

    shape: such as "m64n128k16". a, b: addresses of the operands. Layouts: (leading offset, stride offset, swizzle, whether rows run along m
    or n), offsets and swizzle in bytes, as "Matrix descriptor format" defines them. c, c_offset: the N / 2 registers of the thread: of warp
    w of the warpgroup rows 16 * w .., in the order of mma's sums. adds: false: what C was does not matter.
    """
    return _call("void", "ptx_wgmma", shape, a_type, b_type, c_type, a, *a_layout, b, *b_layout, c, c_offset, adds)


def ptx_wgmma_rs(
    shape: str, a_type: str, b_type: str, c_type: str, a: Any, a_offset: Any, b: Any, b_layout: Sequence[int], c: Any, c_offset: Any,
    adds: Any = True
) -> Call:  # fmt: skip
    """The same with the first operand in registers: each warp has 16 rows of it, in the order of mma's first operand."""
    return _call("void", "ptx_wgmma_rs", shape, a_type, b_type, c_type, a, a_offset, b, *b_layout, c, c_offset, adds)


def ptx_wgmma_fence(dtype: str, data: Any, offset: Any, count: Any) -> Call:
    """Orders accesses of registers before products that use them: needed before the first one, and after the program changed them.
    ("wgmma.fence")"""
    return _call(dtype, "ptx_wgmma_fence", data, offset, count)


def ptx_wgmma_commit_group() -> Call:
    """Ends a group of products. ("wgmma.commit_group")"""
    return _call("void", "ptx_wgmma_commit_group")


def ptx_wgmma_wait_group(dtype: str, groups: int, data: Any, offset: Any, count: Any) -> Call:
    """Waits until at most so many groups of products are unfinished. The registers, of which one product is the last that wrote them, are
    known then. ("wgmma.wait_group")"""
    return _call(dtype, "ptx_wgmma_wait_group", groups, data, offset, count)


def ptx_setmaxnreg(registers: int, increases: bool) -> Call:
    """Changes the number of registers of the threads of a warpgroup, all of which say so. registers: 24 to 256, a multiple of 8.
    ("setmaxnreg")"""
    return _call("void", "ptx_setmaxnreg", registers, increases)


__all__ = [
    "PRODUCTS",
    "Product",
    "SWIZZLES",
    "SWIZZLE_BITS",
    "WARPGROUP",
    "ptx_fence_barrier_init",
    "ptx_fence_proxy_async",
    "ptx_setmaxnreg",
    "ptx_tma_load",
    "ptx_wait_barrier_parity",
    "ptx_wgmma",
    "ptx_wgmma_commit_group",
    "ptx_wgmma_fence",
    "ptx_wgmma_rs",
    "ptx_wgmma_wait_group",
    "tensor_map",
]
