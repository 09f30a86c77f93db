"""Random programs of random accelerators, with their memory: most are right, some do what they must not."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.vta.config_fields import of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, Uop, encode_uops, insn
from tilewright.vta.isa.tables import ALU_OPS, UNITS
from tilewright.vta.simulator.native import Simulator
from tilewright.vta.simulator.reference import Reference


def random_configuration(rng: random.Random, **fixed: Any) -> Configuration:
    """An accelerator with small memories, of any shape."""
    while True:
        fields: dict[str, Any] = {
            "BATCH": rng.choice([1, 1, 2, 3, 4]),
            "BLOCK_IN": rng.choice([1, 2, 4, 5, 8, 16]),
            "BLOCK_OUT": rng.choice([1, 2, 4, 7, 8, 16]),
            "INP_WIDTH": rng.choice([2, 4, 8, 8, 16]),
            "WGT_WIDTH": rng.choice([2, 4, 8, 8, 16]),
            "ACC_WIDTH": rng.choice([16, 32, 32]),
            "OUT_WIDTH": rng.choice([2, 4, 8, 8, 16]),
            "COHERENT": rng.choice([0, 1]),
            "COMMAND_QUEUE": rng.choice([1, 2, 8, 512]),
            "TOKEN_QUEUE": rng.choice([1, 2, 8, 512]),
            "SRAM_PORTS": rng.choice([1, 2]),
            "DRAM_BYTES": rng.choice([1, 4, 8, 32]),
            "DRAM_LATENCY": rng.choice([1, 10, 40]),
            "DRAM_REQUESTS": rng.choice([1, 2, 8]),
            "GEMM_LATENCY": rng.choice([1, 3, 6]),
        }
        bits = {
            "INP": fields["BATCH"] * fields["BLOCK_IN"] * fields["INP_WIDTH"],
            "WGT": fields["BLOCK_OUT"] * fields["BLOCK_IN"] * fields["WGT_WIDTH"],
            "ACC": fields["BATCH"] * fields["BLOCK_OUT"] * fields["ACC_WIDTH"],
        }
        for name, size in bits.items():
            fields[f"{name}_BUFF_SIZE"] = max(size // 8, 1) * rng.randint(4, 40)
        fields["UOP_BUFF_SIZE"] = rng.randint(2, 16) * 8
        try:
            return of_fields({**fields, **fixed})
        except ValueError:
            continue


@dataclass
class Board:
    """A simulator and a reference with the same memory; the addresses of its parts by memory of the accelerator."""

    config: Configuration
    rng: random.Random
    places: dict[str, int] = field(default_factory=dict)
    elements: dict[str, int] = field(default_factory=dict)
    timed: bool = False

    def __post_init__(self) -> None:
        config = replace(self.config, target="tsim" if self.timed else "sim")
        self.native, self.reference = Simulator(config), Reference(config)
        layout = layout_of(self.config)
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        for memory in ("uop", "wgt", "inp", "acc", "out"):
            count = self.elements[memory] = self.config.depth(memory) + self.rng.randint(1, 9)
            data = numbers.bytes(count * self.config.element_bytes(memory))
            if memory == "uop":
                high = [
                    self.config.depth("acc"),
                    min(self.config.depth("inp"), self.config.depth("acc")),
                    self.config.depth("wgt"),
                ]
                data = encode_uops(
                    layout, [Uop(*[self.rng.randrange(max(h // 2, 1)) for h in high]) for _ in range(count)]
                )
            address = self.places[memory] = self.native.allocate(len(data))
            self.native.write(address, data)
            self.reference.dram.blocks[address] = bytearray(data)

    def same_memory(self) -> bool:
        return all([self.native.read(a, len(b)) == bytes(b) for a, b in self.reference.dram.blocks.items()])


def load(board: Board, memory: str, whole: bool = False) -> Insn:
    """Loads part of a memory, or all of it."""
    rng, depth = board.rng, board.config.depth(memory)
    size = board.config.element_bytes(memory)
    if whole:
        return insn("load", memory=memory, dram_base=board.places[memory], y_size=1, x_size=depth, x_stride=depth)
    pads = [0] * 4 if memory == "uop" else [rng.choice([0, 0, 1, 2]) for _ in range(4)]
    y, x = rng.randint(0, 3), rng.randint(0, 4)
    stride = x + rng.randint(0, 2)
    need, room = (y + pads[0] + pads[1]) * (x + pads[2] + pads[3]), board.elements[memory] - max(y * stride, 1)
    if need > depth or room < 0:
        return load(board, memory, whole=True)
    return insn(
        "load",
        memory=memory,
        sram_base=rng.randint(0, min(depth - need, depth - 1)),
        dram_base=board.places[memory]
        + rng.randint(0, room) * size // board.config.alignment(memory) * board.config.alignment(memory),
        y_size=y,
        x_size=x,
        x_stride=stride,
        y_pad_top=pads[0],
        y_pad_bottom=pads[1],
        x_pad_left=pads[2],
        x_pad_right=pads[3],
        pad_min=int(any(pads) and rng.random() < 0.5),
    )


def store(board: Board) -> Insn:
    rng, depth = board.rng, board.config.depth("out")
    y, x = rng.randint(0, 3), rng.randint(0, 4)
    if y * x > depth:
        y = x = 1
    stride = x + rng.randint(0, 1)
    room = max(board.elements["out"] - y * stride, 0)
    base = board.places["out"] + rng.randint(0, room) * board.config.element_bytes("out")
    return insn(
        "store",
        memory="out",
        sram_base=rng.randint(0, min(depth - y * x, depth - 1)),
        dram_base=base,
        y_size=y,
        x_size=x,
        x_stride=stride,
    )


def compute(board: Board, name: str, **fixed: int | str) -> Insn:
    """A `gemm` or an `alu` whose indices stay within the upper half of memories, mostly."""
    rng, c = board.rng, board.config
    begin = rng.randrange(c.depth("uop"))
    values: dict[str, Any] = {"uop_begin": begin, "uop_end": min(begin + rng.randint(0, 3), c.depth("uop"))}
    values["iter_out"], values["iter_in"] = rng.randint(1, 3), rng.randint(1, 3)
    for part, memory in (("dst", "acc"), ("src", "inp" if name == "gemm" else "acc"), ("wgt", "wgt")):
        if name == "alu" and part == "wgt":
            continue
        step = max(c.depth(memory) // 10, 1) if c.depth(memory) > 8 else 0
        values[f"{part}_factor_out"], values[f"{part}_factor_in"] = rng.randint(0, step), rng.randint(0, step)
    if name == "alu":
        values["op"] = rng.choice(ALU_OPS)
        values["use_imm"] = rng.choice([0, 1])
        values["imm"] = rng.choice([rng.randint(-40, 40), rng.randint(-32768, 32767)])
    else:
        values["reset"] = int(rng.random() < 0.2)
    return insn(name, **{**values, **fixed})


def damaged(board: Board, i: Insn) -> Insn:
    """The instruction with one field anything that it can hold."""
    places = [
        p for p in board.native.layout.instructions[i.name][5:] if p.field.name != "memory" or board.rng.random() < 0.2
    ]
    if not places:
        return i
    place = board.rng.choice(places)
    # Long loops take long in Python.
    high = min(place.high, 9) if place.field.name.startswith("iter") else place.high
    return Insn(i.name, {**i.values, place.field.name: board.rng.randint(max(place.low, 0), high)})


def random_program(board: Board, count: int, faults: float = 0.0) -> list[Insn]:
    """Loads everything, resets all of acc, then does `count` random things and ends."""
    rng = board.rng
    depth = board.config.depth("acc")
    program = [load(board, m, whole=True) for m in ("uop", "wgt", "inp", "acc")]
    # Something like acc[n] = max(acc[n], -32768) for all n writes all of out; micro-op 0 does it when it is zero.
    zero = board.native.layout.uop_bytes
    first = board.places["uop"]
    board.native.write(first, bytes(zero))
    board.reference.dram.blocks[first][:zero] = bytes(zero)
    program.append(
        insn("alu", op="max", uop_end=1, iter_out=1, iter_in=depth, dst_factor_in=int(depth > 1), use_imm=1, imm=-32768)
    )
    for _ in range(count):
        kind = rng.choice(["load", "load", "gemm", "gemm", "alu", "alu", "store"])
        if kind == "load":
            i = load(board, rng.choice(["uop", "wgt", "inp", "acc"]))
        elif kind == "store":
            i = store(board)
        else:
            i = compute(board, kind)
        program.append(damaged(board, i) if rng.random() < faults else i)
    whole = board.places["out"]
    program.append(insn("store", memory="out", dram_base=whole, y_size=1, x_size=depth, x_stride=depth))
    return [*program, insn("finish")]


def _with(i: Insn, **flags: int) -> Insn:
    return Insn(i.name, {**i.values, **flags})


def in_order(program: list[Insn]) -> list[Insn]:
    """The program with tokens that make each instruction wait for the one before it."""
    found: list[Insn] = []
    for i in program:
        if found and {found[-1].unit, i.unit} == {"load", "store"}:
            found.append(insn("gemm"))
            found[-2:] = _linked(found[-2], found[-1])
        if found and found[-1].unit != i.unit:
            found[-1], i = _linked(found[-1], i)
        found.append(i)
    return found


def _linked(first: Insn, then: Insn) -> list[Insn]:
    forward = UNITS.index(then.unit) > UNITS.index(first.unit)
    push, pop = ("push_next", "pop_prev") if forward else ("push_prev", "pop_next")
    return [_with(first, **{push: 1}), _with(then, **{pop: 1})]


def with_random_tokens(program: list[Insn], rng: random.Random) -> list[Insn]:
    """The program with flags anywhere; tokens balance, so that many of these programs end."""
    found = list(program)
    by_unit = {u: [n for n, i in enumerate(found) if i.unit == u] for u in UNITS}
    for a, b, push, pop in (("load", "compute", "push_next", "pop_prev"), ("compute", "load", "push_prev", "pop_next"),
                            ("compute", "store", "push_next", "pop_prev"), ("store", "compute", "push_prev", "pop_next")):  # fmt: skip
        if not by_unit[a] or not by_unit[b]:
            continue
        count = min(rng.randint(0, 4), len(by_unit[a]), len(by_unit[b]))
        givers = sorted(rng.sample(by_unit[a], count))
        takers = sorted(rng.sample(by_unit[b], count))
        if rng.random() < 0.7:
            pairs = [(g, t) for g, t in zip(givers, takers, strict=True) if g < t]
            givers, takers = [g for g, _ in pairs], [t for _, t in pairs]
        for n in givers:
            found[n] = _with(found[n], **{push: 1})
        for n in takers:
            found[n] = _with(found[n], **{pop: 1})
    return found


KINDS = (IndexError, ValueError, RuntimeError)
"""What running a program raises, or what is derived from these."""


def outcome(run: Any, program: list[Insn]) -> str:
    """What running a program says: "" where it ends well. What is allocated near an address is left out: it may be the program itself."""
    try:
        run(program)
        return ""
    except KINDS as error:
        kind = next(k.__name__ for k in KINDS if isinstance(error, k))
        return f"{kind}: {error}".partition(": the allocation below it")[0]
