"""Exact counts of the instructions that code of a Cortex-M executes, by function: Unicorn (PyPI) runs it in this process.

Every run of a basic block is counted, and a block's instructions are those that Capstone decodes; an instruction whose condition is
false counts like any other. Vectors and peripherals do not exist: functions are called directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.micro.cortex_m7 import block_cycles
from tilewright.micro.board import Board
from tilewright.micro.linking.link import Image

END = 0x0FFF_0000
"""Where calls return to. Nothing else lies there."""
DEEPEST, UNTOUCHED = 1 << 16, 0xA5
"""Bytes of stack that are looked at, and what they hold before a call."""


MODELS = {"cortex-m0plus": "cortex-m0"}
"""Processors that have the same instructions as others, which Unicorn has."""


class Counts(NamedTuple):
    """What a call executed: instructions, and modelled cycles of a Cortex-M7, both by function, too; the bytes of stack that it wrote."""

    instructions: int
    cycles: float
    by_function: Mapping[str, int]
    cycles_by_function: Mapping[str, float]
    stack: int


class Emulator:
    """A board's processor with an image in its memories."""

    def __init__(self, board: Board, image: Image) -> None:
        import capstone
        import unicorn
        from unicorn import arm_const

        self.image, self.consts = image, arm_const
        self.cpu: Any = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        name = MODELS.get(board.target().mcpu, board.target().mcpu)
        self.cpu.ctl_set_cpu_model(getattr(arm_const, f"UC_CPU_ARM_{name.upper().replace('-', '_')}"))
        for memory in board.memory:
            self.cpu.mem_map(memory.start & ~0xFFF, -(-memory.size // 0x1000) * 0x1000)
        self.cpu.mem_map(END, 0x1000)
        for address, data in image.segments.items():
            self.cpu.mem_write(address, bytes(data))
        self.top = board.data.end & ~15
        self.blocks: Counter[tuple[int, int]] = Counter()
        self.decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
        self.decoder.detail = True
        self.cpu.hook_add(unicorn.UC_HOOK_BLOCK, self._block)

    def _block(self, cpu: Any, address: int, size: int, data: Any) -> None:
        self.blocks[address, size] += 1

    def write(self, symbol: str, data: bytes) -> None:
        """Writes bytes where a symbol is."""
        self.cpu.mem_write(self.image.symbols[symbol] & ~1, data)

    def read(self, symbol: str, size: int) -> bytes:
        """Bytes from where a symbol is."""
        return bytes(self.cpu.mem_read(self.image.symbols[symbol] & ~1, size))

    def call(self, symbol: str, args: Sequence[int] = ()) -> tuple[int, Counts]:
        """(result, counts) of a function of up to four integers."""
        c = self.consts
        registers = (c.UC_ARM_REG_R0, c.UC_ARM_REG_R1, c.UC_ARM_REG_R2, c.UC_ARM_REG_R3)
        for register, value in zip(registers, args, strict=False):
            self.cpu.reg_write(register, value)
        self.cpu.mem_write(self.top - DEEPEST, bytes([UNTOUCHED]) * DEEPEST)
        self.cpu.reg_write(c.UC_ARM_REG_SP, self.top)
        self.cpu.reg_write(c.UC_ARM_REG_LR, END | 1)
        self.blocks.clear()
        self.cpu.emu_start(self.image.symbols[symbol] | 1, END)
        return self.cpu.reg_read(c.UC_ARM_REG_R0), self.counts()

    def counts(self) -> Counts:
        """The counts of the last call."""
        by_function: Counter[str] = Counter()
        cycles: dict[str, float] = {}
        for (address, size), runs in self.blocks.items():
            found = self.image.function_at(address)
            name = found.name if found is not None else hex(address)
            code = list(self.decoder.disasm(bytes(self.cpu.mem_read(address, size)), address))
            if sum([i.size for i in code]) != size:
                raise ValueError(f"{name}: the {size} bytes at {address:#x} are no instructions that Capstone knows")
            by_function[name] += runs * len(code)
            cycles[name] = cycles.get(name, 0) + runs * block_cycles(code)
        stack = bytes(self.cpu.mem_read(self.top - DEEPEST, DEEPEST)).lstrip(bytes([UNTOUCHED]))
        return Counts(sum(by_function.values()), sum(cycles.values()), by_function, cycles, len(stack))


__all__ = ["Counts", "Emulator"]
