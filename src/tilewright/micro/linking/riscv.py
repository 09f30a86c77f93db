"""Relocations of 32-bit RISC-V, as the "RISC-V ABIs Specification" (psABI) numbers and defines them."""

from __future__ import annotations

import struct

from tilewright.micro.linking.arm import Reach

WORD, BRANCH, JAL, CALL, CALL_PLT, GOT_HI20 = 1, 16, 17, 18, 19, 20
PCREL_HI20, PCREL_LO12_I, PCREL_LO12_S, HI20, LO12_I, LO12_S = 23, 24, 25, 26, 27, 28
RVC_BRANCH, RVC_JUMP, WORD_PCREL = 44, 45, 57
_ADD, _SUB = {33: "<B", 34: "<H", 35: "<I"}, {37: "<B", 38: "<H", 39: "<I"}
_SET = {54: "<B", 55: "<H", 56: "<I"}
NOTHING = frozenset({0, 43, 51})
"""Relocations that change nothing: code is taken as it is, not made shorter (ALIGN, RELAX)."""
GOT = frozenset({GOT_HI20})
HIGH = frozenset({GOT_HI20, PCREL_HI20})
"""Upper halves, by whose place the lower halves name their target."""
LOW = frozenset({PCREL_LO12_I, PCREL_LO12_S})
BRANCHES = frozenset({BRANCH, JAL, CALL, CALL_PLT, RVC_BRANCH, RVC_JUMP})
NAMES = {BRANCH: "R_RISCV_BRANCH", JAL: "R_RISCV_JAL", CALL_PLT: "R_RISCV_CALL_PLT", PCREL_HI20: "R_RISCV_PCREL_HI20"}


def apply(code: bytearray, at: int, place: int, kind: int, value: int, reach: Reach) -> bool:
    """Writes one relocation. value: symbol and addend; for lower halves (LOW) the distance that the upper half was given. Returns whether
    the kind is known."""
    distance = value - place
    if kind == WORD:
        struct.pack_into("<I", code, at, value & 0xFFFFFFFF)
    elif kind == WORD_PCREL:
        struct.pack_into("<I", code, at, distance & 0xFFFFFFFF)
    elif kind in (CALL, CALL_PLT):
        _upper(code, at, distance)
        _lower_i(code, at + 4, distance)
    elif kind in (PCREL_HI20, GOT_HI20):
        _upper(code, at, distance)
    elif kind == HI20:
        _upper(code, at, value)
    elif kind in (LO12_I, PCREL_LO12_I):
        _lower_i(code, at, value)
    elif kind in (LO12_S, PCREL_LO12_S):
        _edit(code, at, "<I", 0xFE000F80, (value >> 5 & 0x7F) << 25 | (value & 31) << 7)
    elif kind == BRANCH:
        reach(distance, 13)
        bits = (
            (distance >> 12 & 1) << 31
            | (distance >> 5 & 63) << 25
            | (distance >> 1 & 15) << 8
            | (distance >> 11 & 1) << 7
        )
        _edit(code, at, "<I", 0xFE000F80, bits)
    elif kind == JAL:
        reach(distance, 21)
        bits = (
            (distance >> 20 & 1) << 31 | (distance >> 1 & 0x3FF) << 21 | (distance >> 11 & 1) << 20 | distance & 0xFF000
        )
        _edit(code, at, "<I", 0xFFFFF000, bits)
    elif kind == RVC_JUMP:
        reach(distance, 12)
        _edit(code, at, "<H", 0x1FFC, _compressed_jump(distance))
    elif kind == RVC_BRANCH:
        reach(distance, 9)
        d = distance
        bits = (d >> 8 & 1) << 12 | (d >> 3 & 3) << 10 | (d >> 6 & 3) << 5 | (d >> 1 & 3) << 3 | (d >> 5 & 1) << 2
        _edit(code, at, "<H", 0x1C7C, bits)
    elif kind in _ADD or kind in _SUB:
        form = _ADD.get(kind) or _SUB[kind]
        (held,) = struct.unpack_from(form, code, at)
        mask = (1 << 8 * struct.calcsize(form)) - 1
        struct.pack_into(form, code, at, (held + value if kind in _ADD else held - value) & mask)
    elif kind in _SET:
        struct.pack_into(_SET[kind], code, at, value & ((1 << 8 * struct.calcsize(_SET[kind])) - 1))
    else:
        return False
    return True


def _edit(code: bytearray, at: int, form: str, mask: int, bits: int) -> None:
    (word,) = struct.unpack_from(form, code, at)
    struct.pack_into(form, code, at, word & ~mask | bits)


def _upper(code: bytearray, at: int, value: int) -> None:
    """The upper 20 bits; the lower 12 are signed."""
    _edit(code, at, "<I", 0xFFFFF000, value + 0x800 & 0xFFFFF000)


def _lower_i(code: bytearray, at: int, value: int) -> None:
    _edit(code, at, "<I", 0xFFF00000, (value & 0xFFF) << 20)


def _compressed_jump(d: int) -> int:
    """The fields of C.J and C.JAL: offset[11|4|9:8|10|6|7|3:1|5]."""
    return (
        (d >> 11 & 1) << 12 | (d >> 4 & 1) << 11 | (d >> 8 & 3) << 9 | (d >> 10 & 1) << 8
        | (d >> 6 & 1) << 7 | (d >> 7 & 1) << 6 | (d >> 1 & 7) << 3 | (d >> 5 & 1) << 2
    )  # fmt: skip


__all__ = ["BRANCHES", "GOT", "HIGH", "LOW", "NAMES", "NOTHING", "apply"]
