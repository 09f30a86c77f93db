"""What instructions mean, in plain Python and NumPy: the oracle of the other simulators. Their errors have the same texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tilewright.vta.configuration import MEMORIES, Configuration
from tilewright.vta.isa.layout import bits_of, layout_of
from tilewright.vta.isa.program import Insn, Uop, decode_uops
from tilewright.vta.isa.tables import ALU_OPS
from tilewright.vta.simulator.order import Order, order_of, place_text

Array = np.ndarray[Any, Any]


def wrap(values: Array, bits: int) -> Array:
    """The numbers in the low bits of others, in two's complement."""
    half = 1 << (bits - 1)
    return (values + half & (1 << bits) - 1) - half


def unpack(data: bytes, bits: int) -> Array:
    """The numbers in bytes, the first in the low bits."""
    if bits >= 8:
        return np.frombuffer(data, f"<i{bits // 8}").astype(np.int64)
    parts = np.frombuffer(data, np.uint8)[:, None] >> np.arange(0, 8, bits)
    return wrap(parts.reshape(-1).astype(np.int64), bits)


def pack(values: Array, bits: int) -> bytes:
    """The bytes that hold numbers."""
    if bits >= 8:
        return values.astype(f"<i{bits // 8}").tobytes()
    parts = (values.reshape(-1, 8 // bits) & (1 << bits) - 1) << np.arange(0, 8, bits)
    return bytes(parts.sum(axis=1).astype(np.uint8))


def _shifted(x: Array, y: Array, bits: int) -> Array:
    right = x >> np.clip(y, 0, bits - 1)
    left = np.where(-y < bits, x << np.clip(-y, 0, bits - 1), 0)
    return np.where(y >= 0, right, left)


ALU: dict[str, Callable[[Array, Array, int], Array]] = {
    "min": lambda x, y, bits: np.minimum(x, y),
    "max": lambda x, y, bits: np.maximum(x, y),
    "add": lambda x, y, bits: x + y,
    "shr": _shifted,
    "mul": lambda x, y, bits: x * y,
    "clip": lambda x, y, bits: np.minimum(np.maximum(x, ~y), y),
}


class Memory:
    """DRAM as blocks of bytes at addresses."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytearray] = {}

    def find(self, address: int, size: int, who: Callable[[], str]) -> memoryview:
        """Bytes of a block. IndexError where they are not in one."""
        start = max([a for a in self.blocks if a <= address], default=None)
        if start is not None and address + size <= start + len(self.blocks[start]):
            return memoryview(self.blocks[start])[address - start : address - start + size]
        near = "nothing is allocated below it"
        if start is not None:
            near = f"the allocation below it is {start:#x} to {start + len(self.blocks[start]):#x}"
        raise IndexError(f"{who()} DRAM at {address:#x}, {size} bytes, which are not allocated: {near}")


class Step(NamedTuple):
    """A step of `gemm` or `alu`: its trips, the number of its micro-op, and what it works on."""

    out: int
    inner: int
    uop: int
    dst: int
    src: int
    wgt: int


class Reference:
    """An accelerator of a configuration, with its memory."""

    def __init__(self, config: Configuration) -> None:
        self.config, self.layout, self.dram = config, layout_of(config), Memory()
        self.uops: list[Uop] = [Uop()] * config.depth("uop")
        self.chip = {m: np.zeros((config.depth(m), *config.lanes(m)), np.int64) for m in MEMORIES if m != "uop"}
        self.written = {m: np.zeros(config.depth(m), bool) for m in MEMORIES}
        self.program: Sequence[Insn] = ()
        self.order = Order([], {}, {})
        self.last: dict[tuple[str, bool], dict[int, int]] = {}
        """By memory and whether it read: by element, the last instruction of the program."""

    def run(self, instructions: Sequence[Insn]) -> None:
        """Runs a program. IndexError, ValueError and RuntimeError as those of `Simulator.run`."""
        self.program, self.order = instructions, order_of(self.config, instructions)
        self.last = {(m, read): {} for m in ("inp", "wgt", "out") for read in (False, True)}
        for index in self.order.starts:
            self.execute(instructions[index], index)

    def execute(self, i: Insn, index: int) -> None:
        """Does what one instruction says. index: its number in the program, for messages."""
        if i.name != "finish":
            getattr(self, f"_{i.name}")(i, index)

    def _refuse(self, kind: type[Exception], i: Insn, index: int, why: str) -> NoReturn:
        raise kind(f"{place_text(i, index)} {why}")

    def _check(self, memory: str, element: int, read: bool, i: Insn, index: int, step: Step | None = None) -> None:
        depth = self.config.depth(memory)
        if element < depth and (not read or self.written[memory][element]):
            return
        what = self._access(memory, element, read, step)
        why = ", which nothing has written" if element < depth else f", but {memory} has {depth} elements"
        self._refuse(IndexError, i, index, what + why)

    def _access(self, memory: str, element: int, read: bool, step: Step | None) -> str:
        what = f"{'reads' if read else 'writes'} {memory}[{element}]"
        return what if step is None else f"{what} in trip ({step.out}, {step.inner}), micro-op {step.uop}"

    def _check_order(
        self, memory: str, element: int, read: bool, i: Insn, index: int, step: Step | None = None
    ) -> None:
        """A token must order an access behind those of the other unit: a memory has one unit that writes it and one that reads it."""
        other = self.last[memory, not read].get(element)
        self.last[memory, read][element] = index
        if other is None or self.order.numbers[other] <= self.order.done[index][self.program[other].unit]:
            return
        does = "writes" if read else "reads"
        before = place_text(self.program[other], other)
        what = self._access(memory, element, read, step)
        self._refuse(RuntimeError, i, index, f"{what}, but no token orders it and {before}, which {does} it")

    def _check_alignment(self, memory: str, i: Insn, index: int) -> None:
        alignment = self.config.alignment(memory)
        if i["dram_base"] % alignment:
            self._refuse(ValueError, i, index, f"has an address of {memory} that is no multiple of {alignment}")

    def _row(self, i: Insn, index: int, memory: str, y: int, does: str) -> memoryview:
        size = self.config.element_bytes(memory)
        address = i["dram_base"] + y * i["x_stride"] * size
        return self.dram.find(address, i["x_size"] * size, lambda: f"{place_text(i, index)} {does}")

    def _load(self, i: Insn, index: int) -> None:
        memory = i.choice("memory")
        if memory not in ("uop", "wgt", "inp", "acc"):
            self._refuse(ValueError, i, index, "loads a memory that cannot be loaded")
        top, bottom, left, right = (i[n] for n in ("y_pad_top", "y_pad_bottom", "x_pad_left", "x_pad_right"))
        if memory == "uop" and (top or bottom or left or right):
            self._refuse(ValueError, i, index, "pads micro-ops, which have no padding")
        row, rows = left + i["x_size"] + right, top + i["y_size"] + bottom
        if row * rows == 0:
            return
        base = i["sram_base"]
        self._check(memory, base + row * rows - 1, False, i, index)
        self._check_alignment(memory, i, index)
        if memory != "uop":
            padding = -(1 << (self.config.width(memory) - 1)) if i["pad_min"] else 0
            self.chip[memory][base : base + row * rows] = padding
        for y in range(i["y_size"] if i["x_size"] else 0):
            data = self._row(i, index, memory, y, "reads")
            at = base + (top + y) * row + left
            if memory == "uop":
                self._load_uops(at, bytes(data), i, index)
            else:
                shape = (i["x_size"], *self.config.lanes(memory))
                self.chip[memory][at : at + i["x_size"]] = unpack(bytes(data), self.config.width(memory)).reshape(shape)
        self.written[memory][base : base + row * rows] = True
        for element in range(base, base + row * rows) if memory in ("inp", "wgt") else ():
            self._check_order(memory, element, False, i, index)

    def _load_uops(self, at: int, data: bytes, i: Insn, index: int) -> None:
        try:
            found = decode_uops(self.layout, data)
        except ValueError:
            end = bits_of(self.layout.uop)
            self._refuse(ValueError, i, index, f"reads a micro-op whose bits from {end} on are not 0")
        self.uops[at : at + len(found)] = found

    def _store(self, i: Insn, index: int) -> None:
        if i.choice("memory") != "out":
            self._refuse(ValueError, i, index, "stores a memory that cannot be stored")
        if i["y_size"] * i["x_size"] == 0:
            return
        self._check_alignment("out", i, index)
        for y in range(i["y_size"]):
            first = i["sram_base"] + y * i["x_size"]
            for x in range(i["x_size"]):
                self._check("out", first + x, True, i, index)
                self._check_order("out", first + x, True, i, index)
            row = self.chip["out"][first : first + i["x_size"]].reshape(-1)
            self._row(i, index, "out", y, "writes")[:] = pack(row, self.config.width("out"))

    def _steps(self, i: Insn, index: int) -> Iterator[Step]:
        for out in range(i["iter_out"]):
            for inner in range(i["iter_in"]):
                for number in range(i["uop_begin"], i["uop_end"]):
                    self._check("uop", number, True, i, index, Step(out, inner, number, 0, 0, 0))
                    found = self.uops[number]
                    factors = [
                        (i.values.get(f"{n}_factor_out", 0), i.values.get(f"{n}_factor_in", 0)) for n in Uop._fields
                    ]
                    moved = [v + out * a + inner * b for v, (a, b) in zip(found, factors, strict=True)]
                    yield Step(out, inner, number, *moved)

    def _put(self, element: int, values: Array) -> None:
        """A result, in acc and out."""
        self.chip["acc"][element] = wrap(values, self.config.width("acc"))
        self.chip["out"][element] = wrap(values, self.config.width("out"))
        self.written["acc"][element] = self.written["out"][element] = True

    def _gemm(self, i: Insn, index: int) -> None:
        for step in self._steps(i, index):
            self._check("acc", step.dst, not i["reset"], i, index, step)
            if i["reset"]:
                self._check_order("out", step.dst, False, i, index, step)
                self._put(step.dst, np.zeros(self.config.lanes("acc"), np.int64))
                continue
            self._check("inp", step.src, True, i, index, step)
            self._check("wgt", step.wgt, True, i, index, step)
            for memory, element, read in (("inp", step.src, True), ("wgt", step.wgt, True), ("out", step.dst, False)):
                self._check_order(memory, element, read, i, index, step)
            product = self.chip["inp"][step.src] @ self.chip["wgt"][step.wgt].T
            self._put(step.dst, self.chip["acc"][step.dst] + product)

    def _alu(self, i: Insn, index: int) -> None:
        if i.choice("op") not in ALU_OPS:
            self._refuse(ValueError, i, index, "has an operation that does not exist")
        operation, bits = ALU[i.choice("op")], self.config.width("acc")
        for step in self._steps(i, index):
            self._check("acc", step.dst, True, i, index, step)
            if not i["use_imm"]:
                self._check("acc", step.src, True, i, index, step)
            self._check_order("out", step.dst, False, i, index, step)
            y = np.int64(i["imm"]) if i["use_imm"] else self.chip["acc"][step.src]
            self._put(step.dst, operation(self.chip["acc"][step.dst], np.asarray(y), bits))


__all__ = ["ALU", "Memory", "Reference", "pack", "unpack", "wrap"]
