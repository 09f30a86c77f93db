"""Plans of kernels for a board, found by what Unicorn counts: each kernel alone, on random data, from the cost model's decisions on."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.micro.board import Board
from tilewright.micro.code_budget import Choice, code_bytes, fastest_within, kernel_object
from tilewright.micro.device_runtime import CORE, helpers, runtime_objects
from tilewright.micro.export.firmware import in_memories
from tilewright.micro.linking.link import Image, link
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.backend.tuning_tasks import KernelTask, tuning_tasks
from tilewright.scheduling.database import append_plan
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc

ARRAYS = 1 << 20
"""Where arrays begin in the memory for data, in bytes."""


def measured(board: Board, target: Target, program: IRModule, name: str) -> tuple[float, int]:
    """(modelled cycles of one call, bytes of code) of a scheduled kernel."""
    from benchmarks.micro.emulator import Emulator

    (func,) = program.functions.values()
    assert isinstance(func, PrimFunc)
    own = kernel_object(program, name, target)
    image: Image = link([own, *runtime_objects(board, CORE)], [name], in_memories(board), {}, partial(helpers, board))
    emulator, values = Emulator(board, image), np.random.default_rng(0)
    addresses, end = [], board.data.start + ARRAYS
    for param in func.params:
        buffer = func.buffer_map[param]
        shape, dtype = [int(d) for d in buffer.shape], numpy_dtype(buffer.dtype)
        # Bytes at random; words are small, since some are shifts.
        low, high = (-128, 128) if dtype.itemsize == 1 else (1, 8)
        data = values.integers(low, high, shape).astype(dtype).tobytes()
        emulator.cpu.mem_write(end, data)
        addresses.append(end)
        end += -(-len(data) // 64) * 64
    emulator.cpu.mem_write(end, np.array(addresses, np.uint32).tobytes())
    status, counts = emulator.call(name, [end])
    if status:
        raise TVMError(f"{name} ends with {status}")
    return counts.cycles, code_bytes(own)


def write_plans(
    board: Board, mod: IRModule, params: Any, path: Path, trials: int
) -> list[tuple[KernelTask, float, float]]:
    """Writes the plans that are the fastest together of those that so many trials found for each kernel, in no more code than untuned.
    Returns (task, cycles before, cycles after) of all kernels."""
    target, tasks, choices = board.target("llvm"), [], []
    for task in tuning_tasks(mod, target, params):
        draw, space = random.Random(0), task.space
        best: Any = None
        least, size = measured(board, target, space.untuned(), task.name)
        found, seen = [Choice({}, least * task.weight, size)], set[str]()
        for trial in range(trials):
            candidate = space.draw(draw) if best is None or trial % 2 else space.neighbour(best, draw)
            if space.key(candidate) in seen:
                continue
            seen.add(space.key(candidate))
            try:
                cycles, size = measured(board, target, space.program(candidate), task.name)
            except TVMError:
                continue
            found.append(Choice(candidate, cycles * task.weight, size))
            if cycles < least:
                best, least = candidate, cycles
        tasks.append(task)
        choices.append(found)
    chosen = fastest_within(choices, sum([c[0].bytes for c in choices]))
    for task, choice in zip(tasks, chosen, strict=True):
        append_plan(path, task.key, task.name, target.text_for_all, choice.plan)
    return [(task, c[0].cost, choice.cost) for task, c, choice in zip(tasks, choices, chosen, strict=True)]


__all__ = ["measured", "write_plans"]
