"""Tasks and arguments as a device reads them, decoded as its code does."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tilewright.micro import tasks
from tilewright.micro.errors import MicroError
from tilewright.micro.layout import Section
from tilewright.micro.tasks import Batch, Tensor

SECTION = Section("args", 0x20000000, 1024)
FLOAT = (2, 32, 1)


def memory(batch: Batch) -> bytes:
    held = bytearray(SECTION.size)
    for address, data in batch.writes():
        held[address - SECTION.start : address - SECTION.start + len(data)] = data
    return bytes(held)


def words(held: bytes, address: int, form: str) -> tuple[Any, ...]:
    return struct.unpack_from(form, held, address - SECTION.start)


def test_a_packed_call() -> None:
    batch = Batch(SECTION)
    given = [
        Tensor(0x20005000, (2, 3), (6, 1), FLOAT),
        Tensor(0x20006000, (), None, FLOAT),
        -5,
        2.5,
        True,
        "text",
        None,
    ]
    assert batch.add("f", 0x1001, tasks.PACKED, given)
    held = memory(batch)
    assert words(held, SECTION.start, "<4I") == (1, tasks.UNDONE, 0, 0)
    function, args, result, kind, count, status, ticks = words(held, SECTION.start + 16, "<5IiQ")
    assert (function, kind, count, status, ticks, result % 8, args % 8) == (0x1001, tasks.PACKED, 7, -1, 0, 0, 0)
    values = [words(held, args + 16 * k, "<iIq") for k in range(7)]
    assert [v[0] for v in values] == [7, 7, 1, 3, 2, 8, 0] and values[2][2] == -5 and values[4][2] == 1
    assert words(held, args + 48 + 8, "<d") == (2.5,) and words(held, values[5][2], "<5s") == (b"text\0",)
    data, device, number, rank, code, bits, lanes, shape, strides, offset = words(held, values[0][2], "<IiiiBBHIIQ")
    assert (data, device, number, rank, code, bits, lanes, offset) == (0x20005000, 1, 0, 2, 2, 32, 1, 0)
    assert words(held, shape, "<2q") == (2, 3) and words(held, strides, "<2q") == (6, 1)
    assert words(held, values[1][2], "<IiiiBBHIIQ")[3:9:5] == (0, 0)


def test_kernels_take_addresses() -> None:
    batch = Batch(SECTION)
    assert batch.add("k", 0x2000, tasks.KERNEL, [1, 2, 0xFFFFFFFF])
    held = memory(batch)
    _, args, _, kind, count, _, _ = words(held, SECTION.start + 16, "<5IiQ")
    assert (kind, count) == (tasks.KERNEL, 3) and words(held, args, "<3I") == (1, 2, 0xFFFFFFFF)


def test_a_full_list() -> None:
    batch = Batch(SECTION)
    tensor = Tensor(0x20005000, (4,), None, FLOAT)
    count = 0
    while batch.add("f", 1, tasks.PACKED, [tensor, tensor]):
        count += 1
    assert batch.most - 4 < count <= batch.most
    before = memory(batch)
    assert not batch.add("f", 1, tasks.PACKED, [Tensor(1, (5,), None, FLOAT)] * 9) and memory(batch) == before
    assert (SECTION.start + batch.read_size) <= batch.at < batch.floor + 16
    batch.clear()
    assert batch.add("f", 1, tasks.PACKED, [tensor]) and batch.names == ["f"]
    with pytest.raises(MicroError, match="its 100 arguments do not fit into the section 'args' of 1024 bytes"):
        Batch(SECTION).add("wide", 1, tasks.PACKED, [1] * 100)


def test_what_is_no_argument() -> None:
    with pytest.raises(TypeError, match="take its arrays, numbers, truth values and texts, but were given list"):
        Batch(SECTION).add("f", 1, tasks.PACKED, [[1]])


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (struct.pack("<iIq", 1, 0, -3), -3), (struct.pack("<iId", 3, 0, 0.5), 0.5), (struct.pack("<iIq", 2, 0, 1), True),
        (bytes(16), None), (struct.pack("<iIq", 7, 0, 1234), None),
    ],
)  # fmt: skip
def test_results(data: bytes, value: Any) -> None:
    assert tasks.value_of(data) == value
