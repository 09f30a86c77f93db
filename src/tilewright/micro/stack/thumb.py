"""Thumb code: which instructions move the stack pointer, and which call ("Armv7-M Architecture Reference Manual", A5 and A7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.micro.stack.code import Code, skips

SP, LR, PC = 13, 14, 15
ALIGNED = 64
"""Bytes that code loses at most where it aligns its frame."""
REMEMBERED = 6
"""For so many instructions a register's value is known: compilers compute what moves the stack pointer just before."""


def _expanded(bits: int) -> int:
    """A modified immediate (ThumbExpandImm) of 12 bits."""
    top, low = bits >> 10, bits & 0xFF
    if top == 0:
        return (low, low << 16 | low, low << 24 | low << 8, low * 0x01010101)[bits >> 8 & 3]
    value, turn = 0x80 | bits & 0x7F, bits >> 7
    return (value >> turn | value << (32 - turn)) & 0xFFFFFFFF


def _count(mask: int) -> int:
    return bin(mask).count("1")


class _Reader:
    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.start = data, start
        self.code = Code()
        self.values: dict[int, int] = {}
        """Constants that registers hold, as the code just before says."""
        self.below: dict[int, int] = {}
        """Registers that hold the stack pointer less some bytes."""
        self.frames: set[int] = set()
        """Registers that hold a place of the frame, from which the stack pointer comes back."""
        self.ages: dict[int, int] = {}

    def word(self, at: int) -> int | None:
        """The word of a literal."""
        k = at - self.start
        return struct.unpack_from("<I", self.data, k)[0] if 0 <= k <= len(self.data) - 4 else None

    def short(self, at: int, h: int) -> None:
        """An instruction of 16 bits."""
        code = self.code
        if h & 0xFE00 == 0xB400:  # PUSH
            code.frame += 4 * _count(h & 0x1FF)
        elif h & 0xFF80 == 0xB080:  # SUB SP, #
            code.frame += (h & 0x7F) * 4
        elif h & 0xFF00 == 0x4400:  # ADD Rdn, Rm
            if (h & 7 | h >> 4 & 8) == SP:
                self._moves(self.values.get(h >> 3 & 15))
        elif h & 0xFF00 == 0x4600:  # MOV Rd, Rm
            to, source = h & 7 | h >> 4 & 8, h >> 3 & 15
            if to == SP and source in self.below:
                code.frame += self.below[source] + ALIGNED if self.below[source] or source not in self.frames else 0
            elif to == SP and source not in self.frames:
                self._moves(None)
            elif source == SP and to != SP:
                self._lowered(to, 0)
                self.frames.add(to)
            else:
                self._forget(to)
        elif h & 0xF800 == 0x4800:  # LDR Rt, literal
            value = self.word((at + 4 & ~3) + (h & 0xFF) * 4)
            self._hold(h >> 8 & 7, value)
        elif h & 0xFF07 == 0x4700:  # BX and BLX
            if h >> 3 & 15 != LR:
                code.indirect = True
        elif h & 0xF800 == 0xE000:  # B
            self._goes(at + 4 + ((h & 0x7FF) << 1) - ((h & 0x400) << 2))
        elif h & 0xF800 == 0x2000:  # MOVS Rd, #
            self._hold(h >> 8 & 7, h & 0xFF)
        elif h & 0xFFC0 == 0x4240:  # RSBS Rd, Rn, #0
            held = self.values.get(h >> 3 & 7)
            self._hold(h & 7, None if held is None else -held & 0xFFFFFFFF)
        elif (
            h & 0xF000 == 0x0000 and h & 7 == h >> 3 & 7 and h & 7 in self.below
        ):  # shifts that align a place below the frame
            self._lowered(h & 7, self.below[h & 7])
        elif h & 0xFE00 == 0x1A00:  # SUBS Rd, Rn, Rm
            below, held = self.below.get(h >> 3 & 7), self.values.get(h >> 6 & 7)
            self._forget(h & 7)
            if below is not None and held is not None:
                self._lowered(h & 7, below + held)
        elif h & 0xF800 == 0xA800:  # ADD Rd, SP, #
            self._forget(h >> 8 & 7)
            self.frames.add(h >> 8 & 7)
        elif h & 0xF800 == 0x0000 and h & 0x7C0:  # LSLS Rd, Rm, #
            held = self.values.get(h >> 3 & 7)
            self._hold(h & 7, None if held is None else held << (h >> 6 & 31) & 0xFFFFFFFF)
        elif h & 0xFE00 == 0x1E00:  # SUBS Rd, Rn, #
            to, source = h & 7, h >> 3 & 7
            below, framed = self.below.get(source), source in self.frames
            self._forget(to)
            if framed:
                self.frames.add(to)
            if below is not None:
                self._lowered(to, below + (h >> 6 & 7))
        elif h & 0xF800 == 0x3800:  # SUBS Rdn, #
            if h >> 8 & 7 in self.below:
                self._lowered(h >> 8 & 7, self.below[h >> 8 & 7] + (h & 0xFF))

    def long(self, at: int, first: int, second: int) -> None:
        """An instruction of 32 bits."""
        code = self.code
        if first == 0xE92D or first & 0xFFFF == 0xE92D:  # STMDB SP!
            code.frame += 4 * _count(second)
        elif first & 0xFFBF == 0xED2D and second & 0x0E00 == 0x0A00:  # VPUSH
            code.frame += 4 * (second & 0xFF)
        elif first == 0xF84D and second & 0x0F00 == 0x0D00:  # STR Rt, [SP, #-n]!
            code.frame += second & 0xFF
        elif first == 0xE96D:  # STRD Rt, Rt2, [SP, #-n]!
            code.frame += (second & 0xFF) * 4
        elif first & 0xF800 == 0xF000 and second & 0xD000 in (0xD000, 0x9000):  # BL, B.W
            self._goes(at + 4 + _distance(first, second), second & 0xD000 == 0xD000)
        elif first & 0xF800 == 0xF000 and second & 0xD000 == 0x8000 and first & 0x0380 != 0x0380:  # B<c>.W
            self._goes(at + 4 + _conditional(first, second))
        elif first & 0xFBF0 in (0xF1A0, 0xF2A0) and not second & 0x8000:  # SUB, SUBW #
            bits = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
            self._subtracts(second >> 8 & 15, first & 15, _expanded(bits) if first & 0xFBF0 == 0xF1A0 else bits)
        elif (
            first & 0xFBFF in (0xF10D, 0xF20D) and not second & 0x8000 and second >> 8 & 15 != SP
        ):  # ADD, ADDW Rd, SP, #
            self._forget(second >> 8 & 15)
            self.frames.add(second >> 8 & 15)
        elif first == 0xF36F and second >> 8 & 15 in self.below:  # BFC: a place below the frame is aligned
            self._lowered(second >> 8 & 15, self.below[second >> 8 & 15])
        elif first & 0xFFF0 == 0xEBA0:  # SUB Rd, Rn, Rm
            to, source = second >> 8 & 15, first & 15
            if to == SP and source == SP:
                held = self.values.get(second & 15) if not second & 0x70F0 else None
                self._moves(None if held is None else -held & 0xFFFFFFFF)
            elif source == SP and second & 15 in self.values:
                self._lowered(to, self.values[second & 15])
            else:
                self._forget(to)
        elif first & 0xFBF0 == 0xF240 and not second & 0x8000:  # MOVW
            value = (first & 15) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
            self._hold(second >> 8 & 15, value)
        elif first & 0xFBF0 == 0xF2C0 and not second & 0x8000:  # MOVT
            value = (first & 15) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
            to = second >> 8 & 15
            self._hold(to, self.values[to] & 0xFFFF | value << 16 if to in self.values else None)
        elif first & 0xFBEF == 0xF04F and not second & 0x8000:  # MOV Rd, # (modified)
            bits = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
            self._hold(second >> 8 & 15, _expanded(bits))
        elif first & 0xFF7F == 0xF85F:  # LDR Rt, literal
            offset = (second & 0xFFF) * (1 if first & 0x80 else -1)
            self._hold(second >> 12, self.word((at + 4 & ~3) + offset))

    def _subtracts(self, to: int, source: int, value: int) -> None:
        if to == SP and source == SP:
            self.code.frame += value
        elif to == SP and source not in self.frames:
            self._moves(None)
        elif to != SP and source == SP:
            self._lowered(to, value)
        elif to != SP and source in self.below:
            self._lowered(to, self.below[source] + value)
        elif to != SP:
            framed = source in self.frames
            self._forget(to)
            if framed:
                self.frames.add(to)

    def _moves(self, value: int | None) -> None:
        """A constant in a register is added to the stack pointer."""
        if value is None:
            self.code.unknown = self.code.unknown or "an array whose size is known at run time only"
        elif value >> 31:
            self.code.frame += (1 << 32) - value

    def _goes(self, target: int, calls: bool = False) -> None:
        """A branch; those within the function matter only where they are calls."""
        if calls or not self.start <= target < self.start + len(self.data):
            self.code.calls.add(target)

    def _hold(self, register: int, value: int | None) -> None:
        self._forget(register)
        if value is not None:
            self.values[register] = value

            self.ages[register] = 0

    def _lowered(self, register: int, value: int) -> None:
        self._forget(register)
        self.below[register] = value
        self.ages[register] = 0

    def _forget(self, register: int) -> None:
        self.values.pop(register, None)
        self.below.pop(register, None)
        self.ages.pop(register, None)
        self.frames.discard(register)

    def age(self) -> None:
        """One instruction later: not every instruction that writes a register is known here, so what it holds is known for a while only."""
        for register in [*self.ages]:
            self.ages[register] += 1
            if self.ages[register] > REMEMBERED:
                for held in (self.values, self.below, self.ages):
                    held.pop(register, None)


def _distance(first: int, second: int) -> int:
    """The distance of BL and B.W."""
    sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
    i1, i2 = 1 - (j1 ^ sign), 1 - (j2 ^ sign)
    return (i1 << 23 | i2 << 22 | (first & 0x3FF) << 12 | (second & 0x7FF) << 1) - (sign << 24)


def _conditional(first: int, second: int) -> int:
    """The distance of B<c>.W."""
    sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
    return (j2 << 19 | j1 << 18 | (first & 0x3F) << 12 | (second & 0x7FF) << 1) - (sign << 20)


def read(data: bytes, start: int, gaps: Sequence[tuple[int, int]]) -> Code:
    """What the machine code of a function says. start: its address; gaps: data in it."""
    reader, at = _Reader(data, start), start
    while at + 2 <= start + len(data):
        if (beyond := skips(gaps, at)) != at:
            at = beyond
            continue
        reader.age()
        (first,) = struct.unpack_from("<H", data, at - start)
        if first >> 11 < 0b11101:
            reader.short(at, first)
            at += 2
        elif at + 4 <= start + len(data):
            reader.long(at, first, struct.unpack_from("<H", data, at - start + 2)[0])
            at += 4
        else:
            break
    return reader.code


__all__ = ["read"]
