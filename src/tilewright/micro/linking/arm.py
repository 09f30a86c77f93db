"""Relocations of Arm's M profile, as "ELF for the Arm Architecture" (AAELF32) numbers and defines them."""

from __future__ import annotations

import struct
from typing import Protocol

ABS32, REL32, THM_CALL, THM_JUMP24, TARGET1, PREL31 = 2, 3, 10, 30, 38, 42
MOVW_ABS, MOVT_ABS, MOVW_PREL, MOVT_PREL, JUMP19, GOT_PREL, JUMP11, JUMP8 = 47, 48, 49, 50, 51, 96, 102, 103
NOTHING = frozenset({0, 40, PREL31})
"""Relocations that change nothing here: of tables for exceptions, and marks."""
GOT = frozenset({GOT_PREL})
"""Those that want the address of a word which holds the symbol's address."""
WORDS = frozenset({ABS32, TARGET1})
"""Those of a whole word, in which the addend stands."""
BRANCHES = frozenset({THM_CALL, THM_JUMP24, JUMP19, JUMP11, JUMP8})
NAMES = {
    ABS32: "R_ARM_ABS32", REL32: "R_ARM_REL32", THM_CALL: "R_ARM_THM_CALL", THM_JUMP24: "R_ARM_THM_JUMP24", JUMP19: "R_ARM_THM_JUMP19",
    JUMP11: "R_ARM_THM_JUMP11", JUMP8: "R_ARM_THM_JUMP8", MOVW_ABS: "R_ARM_THM_MOVW_ABS_NC", MOVT_ABS: "R_ARM_THM_MOVT_ABS",
}  # fmt: skip


class Reach(Protocol):
    """Raises the error of a branch over more than `bits` bits."""

    def __call__(self, distance: int, bits: int) -> None: ...


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def apply(code: bytearray, at: int, place: int, kind: int, target: int, thumb: bool, reach: Reach) -> bool:
    """Writes one relocation. code, at: where it stands; place: its address; target: the symbol's address, without the bit of Thumb code,
    which is `thumb`. Addends stand in the code. Returns whether the kind is known."""
    if kind in (ABS32, TARGET1, REL32, GOT_PREL):
        addend = _signed(struct.unpack_from("<I", code, at)[0], 32)
        value = (target + addend) | (thumb and kind != GOT_PREL)
        value -= place if kind in (REL32, GOT_PREL) else 0
        struct.pack_into("<I", code, at, value & 0xFFFFFFFF)
    elif kind in (THM_CALL, THM_JUMP24, JUMP19):
        _branch(code, at, place, kind == JUMP19, target, reach)
    elif kind in (JUMP11, JUMP8):
        _short_branch(code, at, place, 11 if kind == JUMP11 else 8, target, reach)
    elif kind in (MOVW_ABS, MOVT_ABS, MOVW_PREL, MOVT_PREL):
        _move(code, at, place, kind, target, thumb)
    else:
        return False
    return True


def _branch(code: bytearray, at: int, place: int, conditional: bool, target: int, reach: Reach) -> None:
    """BL, B.W (24 bits of halfwords) and B<c>.W (20)."""
    first, second = struct.unpack_from("<HH", code, at)
    sign = first >> 10 & 1
    j1, j2 = second >> 13 & 1, second >> 11 & 1
    if conditional:
        addend = _signed(sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3F) << 12 | (second & 0x7FF) << 1, 21)
    else:
        i1, i2 = 1 - (j1 ^ sign), 1 - (j2 ^ sign)
        addend = _signed(sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3FF) << 12 | (second & 0x7FF) << 1, 25)
    distance = target + addend - place
    reach(distance, 21 if conditional else 25)
    low = distance >> 1 & 0x7FF
    if conditional:
        first = first & 0xFBC0 | (distance >> 20 & 1) << 10 | distance >> 12 & 0x3F
        second = second & 0xD000 | (distance >> 18 & 1) << 13 | (distance >> 19 & 1) << 11 | low
    else:
        sign = distance >> 24 & 1
        j1, j2 = 1 - (distance >> 23 & 1) ^ sign, 1 - (distance >> 22 & 1) ^ sign
        first = first & 0xF800 | sign << 10 | distance >> 12 & 0x3FF
        second = second & 0xD000 | j1 << 13 | j2 << 11 | low
    struct.pack_into("<HH", code, at, first, second)


def _short_branch(code: bytearray, at: int, place: int, bits: int, target: int, reach: Reach) -> None:
    (word,) = struct.unpack_from("<H", code, at)
    mask = (1 << bits) - 1
    distance = target + _signed((word & mask) << 1, bits + 1) - place
    reach(distance, bits + 1)
    struct.pack_into("<H", code, at, word & ~mask & 0xFFFF | distance >> 1 & mask)


def _move(code: bytearray, at: int, place: int, kind: int, target: int, thumb: bool) -> None:
    """MOVW and MOVT: half of a value, in four fields."""
    first, second = struct.unpack_from("<HH", code, at)
    held = (first & 15) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
    value = target + _signed(held, 16)
    if kind in (MOVW_ABS, MOVW_PREL):
        value |= thumb
    if kind in (MOVW_PREL, MOVT_PREL):
        value -= place
    if kind in (MOVT_ABS, MOVT_PREL):
        value >>= 16
    first = first & 0xFBF0 | value >> 12 & 15 | (value >> 11 & 1) << 10
    second = second & 0x8F00 | (value >> 8 & 7) << 12 | value & 0xFF
    struct.pack_into("<HH", code, at, first, second)


__all__ = ["BRANCHES", "GOT", "NAMES", "NOTHING", "WORDS", "Reach", "apply"]
