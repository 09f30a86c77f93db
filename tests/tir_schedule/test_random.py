"""Random sequences of primitives on random programs: the meaning stays, or ScheduleError is raised and nothing changes."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.schedule import all_blocks

from .programs import random_inputs, random_program, run_program

Action = Any


def block_names(s: Schedule) -> list[str]:
    return [b.name_hint for b in all_blocks(s.mod["main"].body.block.body)]


def step(s: Schedule, rng: random.Random, kinds: list[str] | None = None) -> str:
    """One random primitive; its name, and what it was given, for the failure message."""
    names = block_names(s)
    name = rng.choice(names)
    block = s.get_block(name)
    loops = s.get_loops(block)
    loop = rng.choice(loops) if loops else None
    kind = rng.choice(kinds or KINDS)
    text = f"{kind} {name} {loops.index(loop) if loop else None}"
    if kind == "split" and loop is not None:
        s.split(loop, [None, rng.choice([1, 2, 3, 4])] if rng.random() < 0.7 else [rng.choice([2, 3]), None])
    elif kind == "fuse" and len(loops) > 1:
        i = rng.randrange(len(loops) - 1)
        s.fuse(*loops[i : i + 2])
    elif kind == "reorder" and len(loops) > 1:
        s.reorder(*rng.sample(loops, rng.randint(2, len(loops))))
    elif kind in ("parallel", "vectorize", "unroll") and loop is not None:
        getattr(s, kind)(loop)
    elif kind == "bind" and loop is not None:
        s.bind(loop, rng.choice(["blockIdx.x", "threadIdx.x"]))
    elif kind == "compute_inline":
        s.compute_inline(block)
    elif kind == "reverse_compute_inline":
        s.reverse_compute_inline(block)
    elif kind in ("compute_at", "reverse_compute_at"):
        other = rng.choice(names)
        targets = s.get_loops(s.get_block(other))
        if targets:
            at = rng.randrange(len(targets))
            text += f" at {other}.{at}"
            getattr(s, kind)(block, targets[at], preserve_unit_loops=rng.random() < 0.3, index=rng.choice([-1, -1, -2]))
    elif kind == "cache_write":
        s.cache_write(block, 0, "local")
    elif kind == "cache_read":
        s.cache_read(block, 0, "local")
    elif kind == "decompose_reduction" and loop is not None:
        s.decompose_reduction(block, loop)
    elif kind == "rfactor" and loop is not None:
        s.rfactor(loop, 0)
    elif kind == "set_scope":
        s.set_scope(block, 0, "shared")
    elif kind == "add_unit_loop":
        s.add_unit_loop(rng.choice([block, loop or block]))
    elif kind == "reindex":
        s.reindex(block, (rng.choice(["read", "write"]), 0))
    elif kind == "blockize" and loop is not None:
        s.blockize(loop)
    elif kind == "transform_layout":
        way = rng.choice(["read", "write"])
        regions = s.get(block).reads if way == "read" else s.get(block).writes
        if regions:
            chosen = rng.choice([lambda *i: (*i[1:], i[0]), lambda *i: (*i[:-1], i[-1] // 2, i[-1] % 2)])
            if int(regions[0].buffer.shape[-1]) % 2 or regions[0].buffer in s.mod["main"].buffer_map.values():
                return text
            s.transform_layout(block, (way, 0), chosen)
    elif kind == "transform_block_layout":
        s.transform_block_layout(
            block, rng.choice([lambda *i: (*i[1:], i[0]), lambda *i: (*i[:-1], i[-1] // 2, i[-1] % 2)])
        )
    elif kind == "loop_partition" and loop is not None:
        s.loop_partition(loop, [1, None])
    elif kind == "merge":
        other = s.get_loops(s.get_block(rng.choice(names)))
        if loops and other:
            s.merge(loop, rng.choice(other))
    elif kind == "cache_inplace":
        s.cache_inplace(block, 0, "local")
    elif kind == "reindex_cache_read":
        s.reindex_cache_read(block, 0, "local", lambda *i: i)
    elif kind == "reindex_cache_write":
        s.reindex_cache_write(block, 0, "local", lambda *i: i)
    elif kind == "decompose_padding" and loop is not None:
        s.decompose_padding(block, loop)
    elif kind == "rolling_buffer":
        s.rolling_buffer(block, 0)
    return text


KINDS = (
    ["split", "fuse", "reorder", "compute_at", "reverse_compute_at"] * 3
    + ["compute_inline", "reverse_compute_inline", "parallel", "vectorize", "unroll", "bind"]
    + ["cache_write", "cache_read", "decompose_reduction", "rfactor", "set_scope", "add_unit_loop"]
    + ["reindex", "blockize", "transform_layout", "transform_block_layout", "loop_partition", "merge"]
    + ["reindex_cache_read", "reindex_cache_write", "decompose_padding", "rolling_buffer"]
)  # fmt: skip


def check_seed(seed: int, steps: int = 12) -> int:
    rng = random.Random(seed)
    func, names = random_program(rng)
    inputs = random_inputs(func, names, seed)
    expected = run_program(func, inputs)
    s = Schedule(func, seed=seed)
    log: list[str] = []
    done = 0
    for _ in range(steps):
        before = s.mod["main"]
        try:
            log.append(step(s, rng))
        except ScheduleError:
            assert s.mod["main"] is before
            continue
        if s.mod["main"] is before:
            continue
        done += 1
        try:
            got = run_program(s.mod, inputs)
            for a, b in zip(expected, got, strict=True):
                np.testing.assert_array_equal(a.reshape(-1), b.reshape(-1))
        except Exception as error:
            raise AssertionError(
                f"seed {seed}: {log[-1]} broke the program: {error}\n--- before\n{before}\n--- after\n{s.mod}"
            ) from error
    replay = Schedule(func, seed=seed)
    assert s.trace is not None
    s.trace.apply_to_schedule(replay)
    from tilewright.node import assert_structural_equal

    assert_structural_equal(replay.mod["main"], s.mod["main"])
    return done


@pytest.mark.parametrize("seed", range(int(os.environ.get("FUZZ_FROM", "0")), int(os.environ.get("FUZZ_TO", "60"))))
def test_random_schedule(seed: int) -> None:
    check_seed(seed)
