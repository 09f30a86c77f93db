"""Liveness: registers are freed after their last use on every way through a function, and never before."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tilewright.relay.backend.vm.code import INT_OPS, LAYOUTS, Instruction, Label, VMFunction


def random_function(rng: random.Random) -> VMFunction:
    """A function of branches within branches, over registers that are set when they are read."""
    f = VMFunction("f", [("a", -1), ("b", -1)])

    def block(known: list[int], depth: int) -> None:
        for _ in range(rng.randint(0, 3)):
            dst = f.register()
            f.emit("alloc_adt", dst, 0, rng.choices(known, k=rng.randint(0, 2)))
            known.append(dst)
        if depth and rng.random() < 0.7:
            result, otherwise, end = f.register(), Label(), Label()
            f.emit("if", rng.choice(known), otherwise)
            block(inner := list(known), depth - 1)
            f.emit("move", result, rng.choice(inner))
            f.emit("goto", end)
            f.place(otherwise)
            block(inner := list(known), depth - 1)
            f.emit("move", result, rng.choice(inner))
            f.place(end)
            known.append(result)

    known = [0, 1]
    block(known, 3)
    f.emit("ret", rng.choice(known))
    return f


def walk(f: VMFunction, rng: random.Random) -> None:
    """Takes one way through a function: no register is read after it was freed, and at the end none holds a value."""
    alive = set(range(len(f.params)))
    at = 0
    while True:
        item = f.code[at]
        at += 1
        if isinstance(item, Label):
            continue
        if item.name == "kill":
            registers = item.operands[0]
            assert isinstance(registers, list)
            alive -= set(registers)
            continue
        assert set(item.uses) <= alive, f"{item.name} reads {set(item.uses) - alive}, which were freed"
        if item.name == "ret":
            assert alive == set(item.uses), f"{alive - set(item.uses)} are kept for nothing"
            return
        alive |= set(item.writes)
        if item.name == "goto" or (item.name == "if" and rng.random() < 0.5):
            target = item.target
            at = next(i for i, x in enumerate(f.code) if x is target)


def test_registers_are_freed_where_they_die() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        f = random_function(rng)
        f.free_dead_registers()
        for _ in range(8):
            walk(f, rng)


def test_unused_parameters_are_dropped_at_once() -> None:
    f = VMFunction("f", [("a", -1), ("b", -1)])
    f.emit("ret", 1)
    f.free_dead_registers()
    assert isinstance(f.code[0], Instruction) and f.code[0].name == "kill" and f.code[0].operands == ([0],)


def test_the_machine_reads_by_the_same_table() -> None:
    text = (Path(__file__).parents[2] / "native" / "src" / "vm" / "program.h").read_text()
    found = re.findall(r'X\((\w+), "(\w+)"\)', text)
    assert [(name.replace("_", ""), layout) for name, layout in LAYOUTS.items()] == [(n.lower(), s) for n, s in found]
    operations = re.search(r"enum IntOp : int32_t \{ (.*), kNumIntOps \}", text)
    assert operations is not None
    assert [w.strip().removeprefix("k").lower() for w in operations[1].split(",")] == list(INT_OPS)
