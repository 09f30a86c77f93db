"""Numbers of fewer than eight bits, several in a byte."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.tir import const
from tilewright.topi.utils import shape_of

WORDS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def bitpack(data: te.Tensor, bits: int, pack_type: str = "int8", name: str = "bitpack") -> te.Tensor:
    """Packs the lowest `bits` bits of numbers along the last axis into words of `pack_type`, the first number in the lowest bits.
    ValueError where words are not integers of 8 to 64 bits, or do not divide into so many bits, or the last axis into words."""
    if pack_type not in WORDS:
        raise ValueError(f"bitpack: words are integers, so pack_type is one of {', '.join(WORDS)}, not {pack_type!r}")
    width = int(pack_type.removeprefix("uint").removeprefix("int"))
    shape = shape_of(data)
    if bits < 1 or width % bits:
        raise ValueError(f"bitpack: {pack_type} has {width} bits, which {bits} do not divide")
    lanes = width // bits
    if shape[-1] % lanes:
        raise ValueError(
            f"bitpack: {lanes} numbers are a word of {pack_type}, which do not divide the last axis, {shape[-1]}"
        )

    def word(*i: Any) -> Any:
        mask, total = const((1 << bits) - 1, pack_type), None
        for k in range(lanes):
            part = data(*i[:-1], i[-1] * lanes + k).astype(pack_type) & mask
            placed = part << const(k * bits, pack_type) if k else part
            total = placed if total is None else total | placed
        return total

    packed: te.Tensor = te.compute((*shape[:-1], shape[-1] // lanes), word, name=name, tag="bitpack")
    return packed


def compute_bitpack(attrs: Any, inputs: Any) -> te.Tensor:
    """`bitpack` of the first input, with attrs["lanes"] numbers of int8 in a byte. ValueError where these are not given, or not 1, 2, 4 or
    8."""
    try:
        lanes = int(attrs["lanes"])
    except (KeyError, AttributeError):
        raise ValueError(
            'bitpack: attrs has no "lanes"; set it to the numbers that a byte holds, 1, 2, 4 or 8'
        ) from None
    if lanes not in (1, 2, 4, 8):
        raise ValueError(f"bitpack: a byte has 1, 2, 4 or 8 lanes, not {lanes}")
    return bitpack(inputs[0], 8 // lanes)


__all__ = ["bitpack", "compute_bitpack"]
