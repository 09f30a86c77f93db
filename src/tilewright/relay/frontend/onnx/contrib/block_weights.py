"""Converters of weights of 2 to 8 bits in blocks that share a scale, and the tables NF4 and FP4."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN, activated, add, rms_norm
from tilewright.relay.frontend.onnx.ops.casting import decoded
from tilewright.relay.frontend.onnx.value import OnnxNode, Result, Tensor, Value, as_value, onnx_op

NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
        -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    np.float32,
)  # fmt: skip
"""The quantiles of a normal distribution for four bits, from QLoRA (arXiv 2305.14314, appendix E)."""
FP4 = np.array([0, 0.0625 / 12, 8 / 12, 1, 4 / 12, 6 / 12, 2 / 12, 3 / 12], np.float32)
"""Magnitudes of the FP4 table by three bits, two of exponent and one of mantissa. The fourth bit is the sign."""


def unpacked(rows: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of a few bits unpacked from bytes, lowest bits first."""
    if bits == 8:
        return rows
    spread = np.unpackbits(rows, axis=-1, bitorder="little")
    count = spread.shape[-1] // bits
    parts = spread[..., : count * bits].reshape(*rows.shape[:-1], count, bits)
    weights = (1 << np.arange(bits)).astype(np.uint16)
    return np.asarray((parts * weights).sum(-1), np.uint8)


def block_weights(
    packed: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int, block: int, depth: int
) -> np.ndarray:
    """(rows, depth) in float32 of rows of packed numbers. Each block has a scale and a zero point (packed too, or in floats)."""
    rows, blocks = len(packed), -(-depth // block)
    values = unpacked(packed.reshape(rows * blocks, -1), bits).reshape(rows, blocks, block).astype(np.float32)
    factor = scales.reshape(rows, blocks, 1).astype(np.float32)
    return np.asarray(((values - shifts(zeros, bits, rows, blocks)) * factor).reshape(rows, -1)[:, :depth], np.float32)


def shifts(zeros: np.ndarray | None, bits: int, rows: int, blocks: int) -> np.ndarray:
    """Zero points (rows, blocks, 1). The default is the middle of the range of the bits."""
    if zeros is None:
        return np.full((rows, blocks, 1), float(1 << (bits - 1)), np.float32)
    if zeros.dtype == np.uint8:
        zeros = unpacked(zeros.reshape(rows, -1), bits)[:, :blocks]
    return np.asarray(zeros.reshape(rows, blocks, 1), np.float32)


def product(
    node: OnnxNode, a: Value, b: Value, scales: Value, zeros: Value | None, order: Value | None, columns: int
) -> Value:
    """a times packed weights with this number of columns."""
    if node.get("weight_prepacked", 0):
        raise node.refuse(
            "weight_prepacked", node.get("weight_prepacked"), "0: weights as the operator's text describes them"
        )
    depth, bits, block = node.get("K"), node.get("bits", 4), node.get("block_size")
    packed, factor = node.numbers(b, "weights").reshape(columns, -1), node.numbers(scales, "scales")
    given = None if zeros is None else node.numbers(zeros, "zero points")
    if order is None:
        whole = block_weights(packed, factor, given, bits, block, depth)
    else:
        # `order` has the block of each row of the weights.
        blocks = -(-depth // block)
        place = node.numbers(order, "group index").astype(int)[:depth]
        values = unpacked(packed.reshape(columns * blocks, -1), bits).reshape(columns, -1)[:, :depth].astype(np.float32)
        each = shifts(given, bits, columns, blocks)[:, place, 0]
        whole = (values - each) * factor.reshape(columns, blocks).astype(np.float32)[:, place]
    weight = Value(array=np.ascontiguousarray(whole, a.dtype))
    return node.value("nn.matmul", a, weight, transpose_b=True)


@onnx_op("MatMulNBits", domain=DOMAIN)
def _matmul_bits(
    node: OnnxNode,
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value | None = None,
    order: Value | None = None,
    bias: Value | None = None,
) -> Value:
    return add(node, product(node, a, b, scales, zeros, order, node.get("N")), bias)


def _normalised(node: OnnxNode, a: Value, skip: Value | None, scale: Value | None) -> tuple[Value, Value]:
    """(x + skip, divided by its root mean square if there is a scale; x + skip)."""
    total = add(node, a, skip)
    return (total if scale is None else as_value(rms_norm(node, total, scale)[0])), total


@onnx_op("MatMulNBitsMlp", domain=DOMAIN)
def _gated_products(
    node: OnnxNode,
    a: Value,
    skip: Value | None,
    scale: Value | None,
    gate: Value, gate_scales: Value, gate_bias: Value | None,
    up: Value, up_scales: Value, up_bias: Value | None = None,
) -> Result:  # fmt: skip
    x, total = _normalised(node, a, skip, scale)
    opened, data = [
        add(node, product(node, x, w, s, None, None, node.get("N")), b)
        for w, s, b in ((gate, gate_scales, gate_bias), (up, up_scales, up_bias))
    ]
    name = node.get("activation")
    if name in ("silu", "swish"):
        opened = node.value("multiply", opened, node.call("sigmoid", opened))
    else:
        opened = activated(node, opened)
    return [node.call("multiply", opened, data), total]


@onnx_op("MatMulNBitsQkv", domain=DOMAIN)
def _three_products(node: OnnxNode, a: Value, skip: Value | None, scale: Value, *parts: Value | None) -> list[Value]:
    x, total = _normalised(node, a, skip, scale)
    given = [*parts, *[None] * (9 - len(parts))]
    made = []
    for k, columns in enumerate([node.get("Nq"), node.get("Nkv"), node.get("Nkv")]):
        w, s, b = given[3 * k : 3 * k + 3]
        assert w is not None and s is not None
        made.append(add(node, product(node, x, w, s, None, None, columns), b))
    return [*made, total]


@onnx_op("MatMulBnb4", domain=DOMAIN)
def _matmul_table(node: OnnxNode, a: Value, b: Value, largest: Value) -> Expr:
    depth, columns, block = node.get("K"), node.get("N"), node.get("block_size")
    packed = node.numbers(b, "weights").reshape(-1)
    # The upper half of a byte is the first number.
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)
    table = NF4 if node.get("quant_type") == 1 else np.concatenate([FP4, -FP4])
    values = table[codes][: columns * depth]
    factor = np.repeat(node.numbers(largest, "scales").astype(np.float32), block)[: columns * depth]
    weight = (values * factor).reshape(columns, depth).astype(a.dtype)
    return node.call("nn.matmul", a, Value(array=weight), transpose_b=bool(node.get("transB", 1)))


@onnx_op("GatherBlockQuantized", domain=DOMAIN, typed=True)
def _gather_blocks(node: OnnxNode, data: Value, places: Value, scales: Value, zeros: Value | None = None) -> Value:
    bits, block = node.get("bits", 4), node.get("block_size", 128)
    rank = data.ndim
    axis, blocked = (
        node.place(node.get(name, default), rank) for name, default in (("gather_axis", 0), ("quantize_axis", 1))
    )
    if "float" in data.element:
        raise node.refuse("type of data", data.element, "uint8, int4, uint4")
    packed = data.element == "uint8" and bits < 8
    extent = node.static(data)[blocked] * (8 // bits if packed and blocked == rank - 1 else 1)
    count = node.static(data)[axis]
    block = block or extent
    if data.element == "uint8" and zeros is None:
        zero: Any = float(1 << (bits - 1))
    else:
        zero = 0.0
    whole = decoded(node, data)
    parts = {"data": whole, "scales": node.cast(decoded(node, scales), "float32")}
    if zeros is not None:
        parts["zeros"] = decoded(node, zeros)
    if axis == blocked:
        # Scales are repeated for each element of the axis, so an index selects the scale of its block.
        for name in ("scales", "zeros"):
            if name in parts:
                spread = node.call("repeat", parts[name], repeats=block, axis=blocked)
                parts[name] = node.value(
                    "strided_slice", spread, begin=(0,), end=(extent,), strides=(1,), axes=(blocked,)
                )
    inside = node.call(
        "logical_and",
        node.call("less", places, node.scalar(count, places)),
        node.call("greater_equal", places, node.scalar(-count, places)),
    )
    wrapped = node.call(
        "where", node.call("less", places, node.scalar(0, places)), node.scalar(count, places), node.scalar(0, places)
    )
    at = node.value("add", places, wrapped)
    rows = {k: node.value("take", v, at, axis=axis, mode="clip") for k, v in parts.items()}
    # The axes of the indices replace the gathered axis.
    last = blocked + places.ndim - 1 if blocked > axis else blocked
    codes = node.cast(_opened(node, rows["data"], bits) if packed else rows["data"], "float32")
    if zeros is not None:
        numbers = _opened(node, rows["zeros"], bits) if packed else rows["zeros"]
        if packed and blocked == rank - 1:
            kept = node.static(rows["scales"])[last]
            numbers = node.value("strided_slice", numbers, begin=(0,), end=(kept,), strides=(1,), axes=(last,))
        shift: Any = _spread(node, node.cast(numbers, "float32"), block, last, codes, axis == blocked)
    else:
        shift = node.scalar(zero, "float32")
    factor = _spread(node, rows["scales"], block, last, codes, axis == blocked)
    made = node.call("multiply", node.call("subtract", codes, shift), factor)
    fill = rank - 1 - axis
    known = node.call("expand_dims", inside, axis=places.ndim, num_newaxis=fill) if fill else inside
    return node.cast(node.call("where", known, made, node.scalar(0, "float32")), scales.dtype)


def _opened(node: OnnxNode, rows: Value, bits: int) -> Value:
    """Numbers of 2 or 4 bits unpacked from the bytes of the last axis."""
    count = 8 // bits
    by = Value(array=(np.arange(count) * bits).astype(np.uint8))
    apart = node.call("right_shift", node.call("expand_dims", rows, axis=rows.ndim), by)
    low = node.call("bitwise_and", apart, node.scalar((1 << bits) - 1, "uint8"))
    return node.value("reshape", low, newshape=(*[0] * (rows.ndim - 1), rows.known_extent(-1) * count))


def _spread(node: OnnxNode, v: Value, block: int, axis: int, like: Value, there: bool) -> Tensor:
    """Numbers for blocks repeated for each element of the block."""
    extent = like.shape[axis]
    if there or v.shape[axis] == extent:
        return v
    wide = node.value("repeat", v, repeats=block, axis=axis)
    return node.call("strided_slice", wide, begin=(0,), end=(extent,), strides=(1,), axes=(axis,))
