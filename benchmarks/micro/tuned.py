"""Plans of kernels for a board, found by what Unicorn counts: each kernel alone, on random data, from the cost model's decisions on."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.codegen.backend import back_end_of
from tilewright.ir import IRModule
from tilewright.micro.board import Board
from tilewright.micro.device_runtime import CORE, helpers, runtime_objects
from tilewright.micro.export.firmware import in_memories
from tilewright.micro.linking.elf import ElfObject
from tilewright.micro.linking.link import Image, link
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.backend.kernels.machine_code import compile_code, lowered
from tilewright.relay.backend.tuning_tasks import KernelTask, tuning_tasks
from tilewright.scheduling.database import append_plan
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc

ARRAYS = 1 << 20
"""Where arrays begin in the memory for data, in bytes."""


def kernel_cycles(board: Board, target: Target, program: IRModule, name: str) -> float:
    """The modelled cycles of one call of a scheduled kernel."""
    from benchmarks.micro.emulator import Emulator

    (func,) = program.functions.values()
    assert isinstance(func, PrimFunc)
    func = func.with_attr("global_symbol", name)
    code = back_end_of(target).emit(lowered(func, target), target)
    objects = [ElfObject(name, compile_code(code, target)), *runtime_objects(board, CORE)]
    image: Image = link(objects, [name], in_memories(board), {}, partial(helpers, board))
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
    return counts.cycles


def write_plans(
    board: Board, mod: IRModule, params: Any, path: Path, trials: int
) -> list[tuple[KernelTask, float, float]]:
    """Writes the best plan that so many trials found for each kernel, where it is better than the cost model's. Returns (task, cycles
    before, cycles after) of all kernels."""
    target, found = board.target("llvm"), []
    for task in tuning_tasks(mod, target, params):
        draw, space = random.Random(0), task.space
        best: Any = None
        before = least = kernel_cycles(board, target, space.untuned(), task.name)
        seen = set[str]()
        for trial in range(trials):
            candidate = space.draw(draw) if best is None or trial % 2 else space.neighbour(best, draw)
            if space.key(candidate) in seen:
                continue
            seen.add(space.key(candidate))
            try:
                cycles = kernel_cycles(board, target, space.program(candidate), task.name)
            except TVMError:
                continue
            if cycles < least:
                best, least = candidate, cycles
        if best is not None:
            append_plan(path, task.key, task.name, target.text_for_all, best)
        found.append((task, before, least))
    return found


__all__ = ["kernel_cycles", "write_plans"]
