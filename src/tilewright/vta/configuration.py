"""What an accelerator is: widths of data, shape of the array, sizes of its memories, and the numbers of its timing.

Everything else follows from a configuration: the widths of instruction fields (`isa.layout`), the simulators, the compiler. A
configuration is read from the classic JSON fields (`config_fields`).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

TARGETS = ("sim", "tsim", "pynq", "ultra96", "zcu104", "de10nano", "intelfocl")
"""Classic names of what runs the programs: the functional simulator, the cycle-level one, and boards."""
MEMORIES = ("uop", "wgt", "inp", "acc", "out")
"""The memories of the accelerator: micro-ops, weights, inputs, accumulators, outputs; their numbers in instructions are their places."""


@dataclass(frozen=True)
class Configuration:
    """Widths in bits, sizes of memories in bytes, times in cycles. `config_fields.of_fields` makes one and checks it."""

    target: str = "sim"
    inp_width: int = 8
    wgt_width: int = 8
    acc_width: int = 32
    out_width: int = 8
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    uop_buff_size: int = 1 << 15
    inp_buff_size: int = 1 << 15
    wgt_buff_size: int = 1 << 18
    acc_buff_size: int = 1 << 17
    ins_width: int = 128
    uop_width: int = 32
    coherent: int = 1
    frequency: int = 100
    command_queue: int = 512
    token_queue: int = 512
    dram_latency: int = 40
    dram_bytes: int = 8
    dram_burst: int = 64
    dram_requests: int = 8
    sram_ports: int = 2
    gemm_latency: int = 4
    alu_latency: int = 2

    @property
    def out_buff_size(self) -> int:
        """Bytes of the memory of outputs: an output for every accumulator."""
        return self.depth("acc") * self.element_bytes("out")

    def lanes(self, memory: str) -> tuple[int, int]:
        """The numbers of an element: (rows, columns). A micro-op has one."""
        return {
            "uop": (1, 1),
            "wgt": (self.block_out, self.block_in),
            "inp": (self.batch, self.block_in),
            "acc": (self.batch, self.block_out),
            "out": (self.batch, self.block_out),
        }[memory]

    def width(self, memory: str) -> int:
        """Bits of a number of a memory."""
        return int(getattr(self, f"{memory}_width"))

    def element_bits(self, memory: str) -> int:
        rows, columns = self.lanes(memory)
        return rows * columns * self.width(memory)

    def element_bytes(self, memory: str) -> int:
        return self._bytes[memory]

    @cached_property
    def _bytes(self) -> dict[str, int]:
        return {m: self.element_bits(m) // 8 for m in MEMORIES}

    @cached_property
    def _hash(self) -> int:
        return hash(astuple(self))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        # Hashes of strings differ from process to process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def depth(self, memory: str) -> int:
        """Elements that a memory holds."""
        if memory == "out":
            return self.depth("acc")
        return int(getattr(self, f"{memory}_buff_size")) // self.element_bytes(memory)

    def alignment(self, memory: str) -> int:
        """What addresses of elements in DRAM are multiples of, in bytes: the powers of two in the size of an element, at most 64."""
        size = self.element_bytes(memory)
        return min(size & -size, 64)


__all__ = ["MEMORIES", "TARGETS", "Configuration"]
