"""RV32 code with compressed instructions: which move the stack pointer, and which call ("RISC-V Instruction Set Manual", chapters 2 and
27)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from tilewright.micro.stack.code import Code, skips
from tilewright.micro.stack.thumb import ALIGNED, REMEMBERED

RA, SP, ZERO = 1, 2, 0
VLENB = 0xC22
"""The register of control that says how many bytes a vector has."""


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


class _Reader:
    def __init__(self, data: bytes, start: int, vector_bytes: int) -> None:
        self.data, self.start, self.vector_bytes = data, start, vector_bytes
        self.code = Code()
        self.values: dict[int, int] = {}
        """Constants that registers hold, as the code just before says; of auipc, addresses."""
        self.frames: set[int] = set()
        """Registers that hold a place of the frame, from which the stack pointer comes back."""
        self.ages: dict[int, int] = {}

    def long(self, at: int, w: int) -> None:
        """An instruction of 32 bits."""
        op, to, source = w & 0x7F, w >> 7 & 31, w >> 15 & 31
        immediate = _signed(w >> 20, 12)
        if op == 0x13 and w >> 12 & 7 == 0:  # ADDI
            self._adds(to, source, immediate)
        elif op == 0x13 and w >> 12 & 7 == 7 and to == SP:  # ANDI: the frame is aligned
            self.code.frame += ALIGNED
        elif op == 0x13 and w >> 12 & 7 == 1:  # SLLI
            self._computes(to, source, ZERO, lambda a, _: a << (w >> 20 & 31))
        elif op == 0x37:  # LUI
            self._hold(to, w & 0xFFFFF000)
        elif op == 0x17:  # AUIPC
            self._hold(to, at + (w & 0xFFFFF000) & 0xFFFFFFFF)
        elif op == 0x6F:  # JAL
            distance = (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1
            self._goes(at + distance - ((w >> 31) << 20), to != ZERO)
        elif op == 0x67:  # JALR
            base = self.values.get(source)
            if base is not None:
                self._goes(base + immediate & 0xFFFFFFFF, to != ZERO)
            elif not (to == ZERO and source == RA):
                self.code.indirect = True
            self._hold(to, None)
        elif op == 0x33:
            if to == SP and w >> 25 in (0, 0x20) and w >> 12 & 7 == 0:  # ADD, SUB
                self._moves(source, w >> 20 & 31, w >> 25 == 0x20)
            elif to != SP:
                # ADD, SUB, MUL: sizes of vectors are computed by these.
                rule = {0: int.__add__, 0x20: int.__sub__, 1: int.__mul__}.get(w >> 25) if w >> 12 & 7 == 0 else None
                self._computes(to, source, w >> 20 & 31, rule)
        elif op in (0x03, 0x73):
            reads = op == 0x73 and w >> 12 & 7 == 2 and source == ZERO and w >> 20 == VLENB  # CSRR
            self._hold(to, self.vector_bytes if reads and self.vector_bytes else None)

    def short(self, at: int, h: int) -> None:
        """A compressed instruction."""
        op, kind, to = h & 3, h >> 13, h >> 7 & 31
        small = _signed((h >> 12 & 1) << 5 | h >> 2 & 31, 6)
        if op == 0 and kind == 0:  # C.ADDI4SPN
            self._hold((h >> 2 & 7) + 8, None)
            self.frames.add((h >> 2 & 7) + 8)
        elif op == 1 and kind == 0:  # C.ADDI
            self._adds(to, to, small)
        elif op == 1 and kind == 2:  # C.LI
            self._hold(to, small & 0xFFFFFFFF)
        elif op == 1 and kind == 3 and to == SP:  # C.ADDI16SP
            bits = (h >> 12 & 1) << 9 | (h >> 3 & 3) << 7 | (h >> 5 & 1) << 6 | (h >> 2 & 1) << 5 | (h >> 6 & 1) << 4
            self._adds(SP, SP, _signed(bits, 10))
        elif op == 1 and kind == 3:  # C.LUI
            self._hold(to, small << 12 & 0xFFFFFFFF)
        elif op == 1 and kind in (1, 5):  # C.JAL, C.J
            places = ((5, 1), (1, 3), (7, 1), (6, 1), (10, 1), (8, 2), (4, 1), (11, 1))
            at_bit, distance = 2, 0
            for place, count in places:
                distance |= (h >> at_bit & ((1 << count) - 1)) << place
                at_bit += count
            self._goes(at + _signed(distance, 12), kind == 1)
        elif op == 2 and kind == 4 and h >> 2 & 31 == 0 and to:  # C.JR, C.JALR
            base = self.values.get(to)
            if base is not None:
                self._goes(base, bool(h >> 12 & 1))
            elif h >> 12 & 1 or to != RA:
                self.code.indirect = True
        elif op == 2 and kind == 4 and to:  # C.MV, C.ADD
            if to == SP and h >> 12 & 1:
                self._moves(SP, h >> 2 & 31, False)
            elif to == SP and h >> 2 & 31 not in self.frames:
                self._moves(ZERO, ZERO, False)
            elif to != SP:
                self._computes(to, to if h >> 12 & 1 else ZERO, h >> 2 & 31, int.__add__)
                if h >> 2 & 31 == SP and not h >> 12 & 1:
                    self.frames.add(to)
        elif op == 2 and kind == 0:  # C.SLLI
            self._computes(to, to, ZERO, lambda a, _: a << (h >> 2 & 31))
        elif op == 2 and kind == 2:  # C.LWSP
            self._hold(to, None)

    def _adds(self, to: int, source: int, value: int) -> None:
        if to == SP and source == SP:
            self.code.frame += max(0, -value)
        elif to == SP and source not in self.frames:
            self._moves(ZERO, ZERO, False)
        elif source == SP:
            self._hold(to, None)
            self.frames.add(to)
        elif to != SP:
            held = 0 if source == ZERO else self.values.get(source)
            self._hold(to, None if held is None else held + value & 0xFFFFFFFF)

    def _computes(self, to: int, a: int, b: int, rule: Callable[[int, int], int] | None) -> None:
        """A register gets what a rule makes of two others, where both are known."""
        x, y = (0 if r == ZERO else self.values.get(r) for r in (a, b))
        self._hold(to, None if rule is None or x is None or y is None else rule(x, y) & 0xFFFFFFFF)

    def _moves(self, source: int, other: int, negative: bool) -> None:
        """A register is added to the stack pointer."""
        held = self.values.get(other) if source == SP else None
        if held is None:
            self.code.unknown = self.code.unknown or "an array whose size is known at run time only"
            return
        value = -held & 0xFFFFFFFF if negative else held
        if value >> 31:
            self.code.frame += (1 << 32) - value

    def _goes(self, target: int, calls: bool) -> None:
        if calls or not self.start <= target < self.start + len(self.data):
            self.code.calls.add(target)

    def _hold(self, register: int, value: int | None) -> None:
        if value is None or register == ZERO:
            self.values.pop(register, None)
        else:
            self.values[register] = value
            self.ages[register] = 0

    def age(self) -> None:
        """One instruction later: not every instruction that writes a register is known here, so what it holds is known for a while only."""
        for register in [*self.ages]:
            self.ages[register] += 1
            if self.ages[register] > REMEMBERED:
                self.values.pop(register, None)
                del self.ages[register]


def read(data: bytes, start: int, gaps: Sequence[tuple[int, int]], vector_bytes: int = 0) -> Code:
    """What the machine code of a function says. start: its address; gaps: data in it; vector_bytes: of the processor's vectors, by which
    frames with vectors are computed; 0 where that is not known."""
    reader, at = _Reader(data, start, vector_bytes), start
    while at + 2 <= start + len(data):
        if (beyond := skips(gaps, at)) != at:
            at = beyond
            continue
        reader.age()
        (first,) = struct.unpack_from("<H", data, at - start)
        if first & 3 != 3:
            reader.short(at, first)
            at += 2
        elif at + 4 <= start + len(data):
            reader.long(at, struct.unpack_from("<I", data, at - start)[0])
            at += 4
        else:
            break
    return reader.code


__all__ = ["read"]
