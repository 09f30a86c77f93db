"""A program in the making: instructions with the tokens that their accesses need, and micro-ops that stay on the chip while there is room.

Each instruction says which elements it reads and writes. Units run their own instructions in order, so an instruction waits for another
unit only where that one has accessed the same element before; of those, only the latest matters. So a token goes from it to this
instruction, unless a token that was given later says as much. Tokens are counted, and both ends come in order, so each is taken where it is
meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.vta.configuration import Configuration
from tilewright.vta.image import UOPS, Kernel
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, Uop, insn
from tilewright.vta.isa.tables import UNITS
from tilewright.vta.simulator.order import order_of

Array = np.ndarray[Any, Any]
_SHARED = ("inp", "wgt", "out")
"""Memories that two units access; acc and uop are the compute unit's alone."""


class Commands:
    """Instructions of a kernel, appended in the order of the program."""

    def __init__(self, config: Configuration) -> None:
        self.config, self.layout = config, layout_of(config)
        self.instructions: list[Insn] = []
        self.relocations: list[tuple[int, int]] = []
        self.uops: list[Uop] = []
        self._read = {m: np.full(config.depth(m), -1) for m in _SHARED}
        self._written = {m: np.full(config.depth(m), -1) for m in _SHARED}
        self._dram: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}
        """By argument, and whether it was written: (first byte, byte behind the last one, instruction)."""
        self._loads: dict[tuple[Any, ...], int] = {}
        """By what was loaded to where, the last instruction that did; of inputs and weights, which nothing but loads changes."""
        self._told: dict[tuple[str, str], int] = {}
        """By units (from, to), the last instruction of the first that the second has waited for."""
        self._sequences: dict[tuple[Uop, ...], int] = {}
        """Where micro-ops lie in DRAM."""
        self._held: dict[tuple[Uop, ...], int] = {}
        """Where micro-ops lie on the chip, the oldest first."""
        self._next_uop = 0

    # ---- instructions

    def load(self, memory: str, argument: int, offset: int, fields: dict[str, int], first: int, count: int) -> None:
        """Loads `count` elements, from the first one on, unless they are there already. offset: bytes from the start of the argument."""
        elements = np.arange(first, first + count)
        what = (memory, argument, offset, first, *fields.items())
        before = self._loads.get(what, -1)
        if (
            before >= 0
            and (self._written[memory][elements] == before).all()
            and not self._stored_since(argument, before)
        ):
            return
        size = self.config.element_bytes(memory)
        end = offset + max((fields["y_size"] - 1) * fields["x_stride"] + fields["x_size"], 0) * size
        unit = "load" if memory in ("inp", "wgt") else "compute"
        self._append(
            insn("load", memory=memory, sram_base=first, dram_base=offset, **fields),
            unit,
            writes={memory: elements},
            dram=(argument, False, offset, end) if fields["x_size"] else None,
        )
        if memory in _SHARED:
            self._loads[what] = len(self.instructions) - 1

    def _stored_since(self, argument: int, n: int) -> bool:
        """Whether something was stored to an argument after an instruction."""
        stores = self._dram.get((argument, True))
        return stores is not None and stores[-1][2] > n

    def store(self, argument: int, offset: int, fields: dict[str, int], first: int, count: int) -> None:
        """Stores `count` elements of out, from the first one on."""
        end = offset + ((fields["y_size"] - 1) * fields["x_stride"] + fields["x_size"]) * self.config.element_bytes(
            "out"
        )
        self._append(
            insn("store", memory="out", sram_base=first, dram_base=offset, **fields),
            "store",
            reads={"out": np.arange(first, first + count)},
            dram=(argument, True, offset, end),
        )

    def steps(
        self,
        name: str,
        uops: tuple[Uop, ...],
        fields: dict[str, int],
        reads: dict[str, Array],
        writes: dict[str, Array],
    ) -> None:
        """A `gemm` or an `alu` over micro-ops."""
        begin = self._on_chip(uops)
        self._append(insn(name, uop_begin=begin, uop_end=begin + len(uops), **fields), "compute", reads, writes)

    def finish(self) -> Sequence[Insn]:
        """Ends the program, behind all that stores. Returns its instructions."""
        stores = [n for n, i in enumerate(self.instructions) if i.unit == "store"]
        self._append(insn("finish"), "compute", after=stores[-1] if stores else -1)
        order_of(self.config, self.instructions)
        return self.instructions

    def kernel(self, name: str, arguments: int) -> Kernel:
        """The program as a kernel."""
        return Kernel(name, arguments, self.finish(), self.uops, self.relocations)

    # ---- micro-ops

    def _on_chip(self, uops: tuple[Uop, ...]) -> int:
        """Where micro-ops are on the chip; they are loaded if they are not there."""
        if uops in self._held:
            return self._held[uops]
        if uops not in self._sequences:
            self._sequences[uops] = len(self.uops)
            self.uops += uops
        if self._next_uop + len(uops) > self.config.depth("uop"):
            self._next_uop = 0
        begin, end = self._next_uop, self._next_uop + len(uops)
        self._held = {u: at for u, at in self._held.items() if at >= end or at + len(u) <= begin}
        self._held[uops] = begin
        self._next_uop = end
        fields = {"y_size": 1, "x_size": len(uops), "x_stride": len(uops)}
        offset = self._sequences[uops] * self.layout.uop_bytes
        self.relocations.append((len(self.instructions), UOPS))
        self._append(insn("load", memory="uop", sram_base=begin, dram_base=offset, **fields), "compute")
        return begin

    # ---- tokens

    def _append(
        self,
        i: Insn,
        unit: str,
        reads: dict[str, Array] | None = None,
        writes: dict[str, Array] | None = None,
        dram: tuple[int, bool, int, int] | None = None,
        after: int = -1,
    ) -> None:
        reads, writes = reads or {}, writes or {}
        needed = dict.fromkeys(UNITS, -1)
        if after >= 0:
            needed[self.instructions[after].unit] = after
        for memory, elements in [*reads.items(), *writes.items()]:
            if memory in _SHARED and len(elements):
                self._need(needed, int(self._written[memory][elements].max()))
                if memory in writes:
                    self._need(needed, int(self._read[memory][elements].max()))
        if dram is not None:
            argument, is_write, begin, end = dram
            # Loads do not wait for loads, and only one unit stores.
            for low, high, n in self._dram.get((argument, not is_write), ()):
                if low < end and begin < high:
                    self._need(needed, n)
        far = {"load": "store", "store": "load"}.get(unit)
        if far is not None and needed[far] > self._told.get((far, unit), -1):
            # There is no queue between them: the compute unit passes it on.
            self._told[far, unit] = needed[far]
            self._append(insn("gemm"), "compute", after=needed[far])
            needed["compute"] = len(self.instructions) - 1
        for other in UNITS:
            if abs(UNITS.index(other) - UNITS.index(unit)) == 1 and needed[other] > self._told.get((other, unit), -1):
                self._told[other, unit] = needed[other]
                behind = UNITS.index(unit) > UNITS.index(other)
                self._flag(needed[other], "push_next" if behind else "push_prev")
                i = Insn(i.name, {**i.values, "pop_prev" if behind else "pop_next": 1})
        n = len(self.instructions)
        self.instructions.append(i)
        for memory, elements in reads.items():
            if memory in _SHARED:
                self._read[memory][elements] = n
        for memory, elements in writes.items():
            if memory in _SHARED:
                self._written[memory][elements] = n
        if dram is not None:
            self.relocations.append((n, dram[0]))
            self._dram.setdefault(dram[:2], []).append((*dram[2:], n))

    def _need(self, needed: dict[str, int], n: int) -> None:
        """Adds an instruction that must be done: of those that accessed an element, the latest, since a memory has one unit that writes it
        and one that reads it."""
        if n >= 0:
            unit = self.instructions[n].unit
            needed[unit] = max(needed[unit], n)

    def _flag(self, n: int, flag: str) -> None:
        i = self.instructions[n]
        self.instructions[n] = Insn(i.name, {**i.values, flag: 1})


__all__ = ["Commands"]
