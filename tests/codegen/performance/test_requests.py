"""Requests of one warp: passes through shared memory, sectors of global memory."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.codegen.performance.requests import sectors, wavefronts

LANES = np.arange(32, dtype=np.int64)
ALL = np.ones((1, 32), dtype=bool)


# (bytes of each thread, byte addresses) -> (passes, the least)
PASSES = {
    "neighbours": (4, LANES * 4, (1, 1)),
    "one word for all": (4, LANES * 0, (1, 1)),
    "every second word": (4, LANES * 8, (2, 1)),
    "a column of 32": (4, LANES * 128, (32, 1)),
    "a column of 33": (4, LANES * 132, (1, 1)),
    "pairs of a word": (2, LANES * 2, (1, 1)),
    "bytes of a word": (1, LANES, (1, 1)),
    "halves in a column of 64": (2, LANES * 128, (32, 1)),
    "doubles": (8, LANES * 8, (2, 2)),
    "doubles, every second": (8, LANES * 16, (4, 2)),
    "vectors of 16 bytes": (16, LANES * 16, (4, 4)),
    "rows of 128 bytes for ldmatrix": (16, LANES * 128, (32, 4)),
    "rows of 144 bytes for ldmatrix": (16, LANES * 144, (4, 4)),
    "permuted rows of 128 bytes": (16, LANES * 128 + (LANES % 8) * 16, (4, 4)),
}


@pytest.mark.parametrize("name", PASSES)
def test_passes(name: str) -> None:
    width, addresses, expected = PASSES[name]
    found = wavefronts(addresses[None], width, ALL)
    assert (found.taken.tolist(), found.ideal.tolist()) == ([expected[0]], [expected[1]])


SECTORS = {
    "neighbours": (4, LANES * 4, (4, 4)),
    "neighbours, one further": (4, LANES * 4 + 4, (5, 4)),
    "one word for all": (4, LANES * 0, (1, 1)),
    "every second word": (4, LANES * 8, (8, 4)),
    "a word of each sector": (4, LANES * 32, (32, 4)),
    "vectors of 16 bytes": (16, LANES * 16, (16, 16)),
    "bytes": (1, LANES, (1, 1)),
    "halves": (2, LANES * 2, (2, 2)),
}


@pytest.mark.parametrize("name", SECTORS)
def test_sectors(name: str) -> None:
    width, addresses, expected = SECTORS[name]
    found = sectors(addresses[None], width, ALL)
    assert (found.taken.tolist(), found.ideal.tolist()) == ([expected[0]], [expected[1]])


def test_threads_that_take_no_part() -> None:
    active = (LANES % 2 == 0)[None]
    assert wavefronts((LANES * 8)[None], 4, active).taken.tolist() == [2]
    assert wavefronts((LANES * 128)[None], 4, active).taken.tolist() == [16]
    assert sectors((LANES * 4)[None], 4, active).taken.tolist() == [4]
    assert sectors((LANES * 4)[None], 4, active).ideal.tolist() == [2]
    none = np.zeros((1, 32), dtype=bool)
    assert wavefronts((LANES * 4)[None], 4, none).taken.tolist() == [0]
    assert sectors((LANES * 4)[None], 4, none).taken.tolist() == [0]


def test_passes_by_definition() -> None:
    """Random addresses, beside a count with sets."""
    random = np.random.default_rng(0)
    for width in (1, 2, 4, 8, 16):
        addresses = random.integers(0, 256, (50, 32)) * width
        active = random.random((50, 32)) < 0.8
        found = wavefronts(addresses, width, active)
        wide = sectors(addresses, width, active)
        for row in range(50):
            part, total = 32 // max(width // 4, 1), 0
            for first in range(0, 32, part):
                banks: dict[int, set[int]] = {}
                for lane in range(first, first + part):
                    for word in range(addresses[row, lane] // 4, (addresses[row, lane] + max(width, 4) - 1) // 4 + 1):
                        if active[row, lane] and word < addresses[row, lane] // 4 + max(width // 4, 1):
                            banks.setdefault(word % 32, set()).add(word)
                total += max([len(words) for words in banks.values()], default=0)
            assert found.taken[row] == total, (width, row)
            touched = {
                (addresses[row, lane] + byte) // 32 for lane in range(32) if active[row, lane] for byte in range(width)
            }
            assert wide.taken[row] == len(touched)
