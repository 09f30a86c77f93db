"""Tokens, micro-ops and loads of programs in the making."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.vta.compiler.commands import Commands
from tilewright.vta.config_fields import of_fields
from tilewright.vta.isa.assembly import instruction_text
from tilewright.vta.isa.program import Uop

CONFIG = of_fields(
    {"LOG_BLOCK": 2, "LOG_UOP_BUFF_SIZE": 4, "LOG_INP_BUFF_SIZE": 6, "LOG_WGT_BUFF_SIZE": 7, "LOG_ACC_BUFF_SIZE": 8}
)
"""Four micro-ops, 16 inputs, 8 weights, 16 accumulators."""
ROW = {"y_size": 1, "x_size": 4, "x_stride": 4}


def names(commands: Commands) -> list[str]:
    """Instructions with their flags alone."""
    flags = ("pop_prev", "pop_next", "push_prev", "push_next")
    return [" ".join([instruction_text(i).split()[0], *[f for f in flags if i[f]]]) for i in commands.instructions]


def step(commands: Commands, inputs: list[int], outputs: list[int], uops: tuple[Uop, ...] = (Uop(),)) -> None:
    reads = {"inp": np.array(inputs, int), "wgt": np.array([], int)}
    commands.steps("gemm", uops, {"iter_out": 1, "iter_in": 1}, reads, {"out": np.array(outputs)})


def test_tokens_follow_from_accesses() -> None:
    commands = Commands(CONFIG)
    commands.load("inp", 0, 0, ROW, 0, 4)
    commands.load("inp", 0, 64, ROW, 4, 4)
    step(commands, [0, 1], [0])
    step(commands, [2, 5], [1])
    commands.store(1, 0, {**ROW, "x_size": 2}, 0, 2)
    commands.load("inp", 0, 128, ROW, 0, 4)
    commands.finish()
    assert names(commands) == [
        "load.inp push_next",
        "load.inp push_next",
        "load.uop",
        "gemm pop_prev",
        "gemm pop_prev push_prev push_next",
        "store pop_prev push_prev",
        "load.inp pop_next",
        "finish pop_next",
    ]


def test_a_later_token_says_as_much() -> None:
    commands = Commands(CONFIG)
    commands.load("inp", 0, 0, ROW, 0, 4)
    commands.load("inp", 0, 64, ROW, 4, 4)
    step(commands, [4], [0])
    step(commands, [0], [1])
    commands.finish()
    assert names(commands) == ["load.inp", "load.inp push_next", "load.uop", "gemm pop_prev", "gemm", "finish"]


def test_load_and_store_wait_for_each_other_through_the_compute_unit() -> None:
    commands = Commands(CONFIG)
    step(commands, [], [0, 1, 2, 3])
    commands.store(0, 0, ROW, 0, 4)
    commands.load("inp", 0, 0, ROW, 0, 4)
    commands.load("inp", 0, 8, ROW, 4, 4)
    commands.load("inp", 0, 64, ROW, 8, 4)
    commands.finish()
    assert names(commands) == [
        "load.uop", "gemm push_next", "store pop_prev push_prev", "gemm pop_next push_prev", "load.inp pop_next", "load.inp", "load.inp",
        "finish",
    ]  # fmt: skip


def test_accumulators_wait_for_what_was_stored() -> None:
    commands = Commands(CONFIG)
    step(commands, [], [0])
    commands.store(0, 0, {**ROW, "x_size": 1}, 0, 1)
    commands.load("acc", 0, 0, {**ROW, "x_size": 1}, 3, 1)
    commands.finish()
    assert names(commands)[2:] == ["store pop_prev push_prev", "load.acc pop_next", "finish"]


def test_what_is_on_the_chip_is_not_loaded_again() -> None:
    commands = Commands(CONFIG)
    for _ in range(3):
        commands.load("inp", 0, 0, ROW, 0, 4)
        step(commands, [0], [0])
    assert names(commands).count("load.inp push_next") == 1
    commands.load("inp", 0, 64, {**ROW, "x_size": 1, "x_stride": 1}, 3, 1)
    commands.load("inp", 0, 0, ROW, 0, 4)
    step(commands, [0], [0])
    commands.store(0, 256, {**ROW, "x_size": 1}, 0, 1)
    commands.load("inp", 0, 0, ROW, 0, 4)
    loads = [i for i in commands.instructions if i.name == "load" and i.choice("memory") == "inp"]
    assert len(loads) == 4


def test_micro_ops_are_loaded_when_they_are_not_on_the_chip() -> None:
    commands = Commands(CONFIG)
    first, second, third = (Uop(0),), (Uop(1), Uop(2)), (Uop(3), Uop(4))
    for uops in (first, second, first, second, third, second, first, third):
        step(commands, [], [0], uops)
    loads = [(i["sram_base"], i["dram_base"] // 4, i["x_size"]) for i in commands.instructions if i.name == "load"]
    # Four fit: the third takes the place of the first, and of half of the second.
    assert loads == [(0, 0, 1), (1, 1, 2), (0, 3, 2), (2, 1, 2), (0, 0, 1), (1, 3, 2)]
    begins = [i["uop_begin"] for i in commands.instructions if i.name == "gemm"]
    assert begins == [0, 1, 0, 1, 0, 2, 0, 1] and len(commands.uops) == 5


def test_programs_that_would_wait_forever_are_not_made() -> None:
    narrow = of_fields({"COMMAND_QUEUE": 1, "TOKEN_QUEUE": 1})
    commands = Commands(narrow)
    for n in range(6):
        commands.load("inp", 0, 64 * n, ROW, 4 * n, 4)
        step(commands, [4 * n], [0])
    commands.finish()
    assert names(commands)[-1] == "finish"
    with pytest.raises(RuntimeError, match="^the program waits forever"):
        blocked = Commands(narrow)
        for n in range(4):
            blocked.load("inp", 0, 64 * n, ROW, 4 * n, 4)
        for n in range(4):
            step(blocked, [4 * n], [0])
        blocked.finish()
