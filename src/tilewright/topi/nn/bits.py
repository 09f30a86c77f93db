"""Operators on single bits of small integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.conv_nd import conv
from tilewright.topi.utils import as_int, normalize_axis, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


def bitpack(
    data: te.Tensor, bits: int, pack_axis: int, bit_axis: int, pack_type: str, name: str = "QuantizeInput"
) -> te.Tensor:
    """Packs the bits of elements along `pack_axis` into words of `pack_type`, the first element in the highest bit. Bit b of the
    elements is at index b of a new axis `bit_axis`."""
    width = int(pack_type.removeprefix("uint").removeprefix("int"))
    shape = shape_of(data)
    packed = [as_int(d // width) if a == pack_axis else d for a, d in enumerate(shape)]
    packed.insert(bit_axis, bits)

    def element(*i: PrimExpr) -> Any:
        bit = i[bit_axis]
        at = [*i[:bit_axis], *i[bit_axis + 1 :]]
        total = tir.const(0, pack_type)
        for k in range(width):
            index = list(at)
            index[pack_axis] = at[pack_axis] * width + k
            one = to(tir.bitwise_and(tir.shift_right(to(data(*index), "int32"), to(bit, "int32")), 1), pack_type)
            total = tir.bitwise_or(total, tir.shift_left(one, tir.const(width - 1 - k, pack_type)))
        return total

    return compute(packed, element, name=name, tag="injective,bitpack")


def weighted(weight: te.Tensor, bits: int, unipolar: bool) -> te.Tensor:
    """The values of weights: the numbers themselves, or with `unipolar` the sum over bits of 1 or -1 times the bit's place value."""
    if not unipolar:
        return weight
    whole = (1 << bits) - 1
    result: te.Tensor = te.compute(
        weight.shape, lambda *i: to(weight(*i), "int32") * 2 - whole, name="signs", tag="injective"
    )
    return result


def _bitserial_conv2d(layout: str, kernel_layout: str) -> Callable[..., te.Tensor]:
    """The convolution of data and weights in these layouts."""

    def conv2d(
        data: te.Tensor,
        kernel: te.Tensor,
        stride: Any,
        padding: Any,
        activation_bits: int,
        weight_bits: int,
        pack_dtype: str = "uint32",
        out_dtype: str = "int16",
        unipolar: bool = True,
    ) -> te.Tensor:
        signs = weighted(kernel, weight_bits, unipolar)
        return conv(data, signs, stride, padding, 1, 1, layout, kernel_layout, out_dtype)

    conv2d.__name__ = conv2d.__qualname__ = f"bitserial_conv2d_{layout.lower()}"
    conv2d.__doc__ = (
        f"Convolution of data of `activation_bits` ({layout}) with weights of `weight_bits` ({kernel_layout})."
    )
    return conv2d


bitserial_conv2d_nchw = _bitserial_conv2d("NCHW", "OIHW")
bitserial_conv2d_nhwc = _bitserial_conv2d("NHWC", "HWIO")


def bitserial_dense(
    data: te.Tensor,
    weight: te.Tensor,
    data_bits: int,
    weight_bits: int,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> te.Tensor:
    """data (batch, in) of `data_bits` times weights (out, in) of `weight_bits`."""
    signs = weighted(weight, weight_bits, unipolar)
    batch, inner = shape_of(data)
    k = te.reduce_axis((0, inner), name="k")
    return compute(
        [batch, shape_of(weight)[0]],
        lambda i, j: te.sum(to(data(i, k.var), out_dtype) * to(signs(j, k.var), out_dtype), axis=[k]),
        name="bitserial_dense",
        tag="bitserial_dense",
    )


def binary_op_multiplier(pack_dtype: str) -> int:
    """The number of values of one bit that a word holds."""
    return int(pack_dtype.removeprefix("uint").removeprefix("int"))


def binarize_pack(data: te.Tensor, axis: int | None = None, name: str = "PackedInput") -> te.Tensor:
    """Signs of the elements along `axis` (the last one by default) in words of 32 bits, the first element in the highest bit: 1 for numbers
    that are not negative."""
    at = normalize_axis(-1 if axis is None else axis, len(data.shape))
    shape = shape_of(data)
    if isinstance(shape[at], int) and shape[at] % 32:
        raise ValueError(f"binarize_pack: the extent of axis {at} must be a multiple of 32, but is {shape[at]}")

    def element(*i: PrimExpr) -> Any:
        word = tir.const(0, "uint32")
        for k in range(32):
            value = data(*i[:at], i[at] * 32 + k, *i[at + 1 :])
            bit = tir.Select(
                value >= tir.const(0, data.dtype), tir.const(1 << (31 - k), "uint32"), tir.const(0, "uint32")
            )
            word = tir.bitwise_or(word, bit)
        return word

    return compute([*shape[:at], as_int(shape[at] // 32), *shape[at + 1 :]], element, name=name, tag="binarize_pack")


def binary_dense(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """The product of matrices of -1 and 1 whose signs are packed (`binarize_pack`): data (batch, in / 32), weight (out, in / 32) give
    (batch, out) in float32."""
    (batch, words), outputs = shape_of(data), shape_of(weight)[0]
    k = te.reduce_axis((0, words), name="k")
    differing = compute(
        [batch, outputs],
        lambda i, j: te.sum(to(tir.popcount(tir.bitwise_xor(data(i, k.var), weight(j, k.var))), "int32"), axis=k),
        name="differing_bits",
        tag="binary_dense",
    )
    bits = to(as_int(words * 32), "float32")
    return compute(
        [batch, outputs],
        lambda i, j: bits - tir.const(2, "float32") * to(differing(i, j), "float32"),
        name="binary_dense",
        tag=tag.ELEMWISE,
    )
