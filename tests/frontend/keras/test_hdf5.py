"""The reader of HDF5 files: what h5py writes in every form is read as h5py reads it, and what is damaged is refused."""

from __future__ import annotations

import io
from typing import Any

import h5py
import numpy as np
import pytest

from tilewright.formats.hdf5.cursor import checksum
from tilewright.formats.hdf5.file import Group, opened
from tilewright.support.errors import ModelError

FORMS: list[Any] = ["earliest", ("v108", "v108"), ("v110", "v110"), "latest"]
"""The oldest form that h5py writes (it is Keras's), and those of later libraries."""
TYPES = ("f2", "f4", "f8", ">f4", ">i2", "i1", "i4", "i8", "u1", "u8", "?")


def written(many: int, form: Any = "earliest", order: bool = False, **options: Any) -> bytes:
    """A file of groups, weights of all types and attributes, `many` of each."""
    file = io.BytesIO()
    rng = np.random.default_rng(many)
    with h5py.File(file, "w", libver=form, track_order=order, **options) as f:
        g = f.create_group("weights", track_order=order)
        for k in range(many):
            data = rng.integers(0, 2, (k % 5, 3)) if k % 2 else rng.integers(0, 2, ())
            g.create_dataset(f"w{k}", data=data.astype(TYPES[k % len(TYPES)]))
            g.attrs[f"a{k}"] = ["x" * k, k, np.arange(k), [b"ab", b"c"], True, ["é", "", "b"]][k % 6]
            f.create_group(f"layers/l{k}/vars")
        g["w0"].attrs["dtype"] = "bfloat16"
    return file.getvalue()


def assert_same(want: Any, got: Any) -> int:
    """Compares two objects, and what is in them; how many weights there were."""
    assert set(want.attrs) == set(got.attrs)
    for key, value in want.attrs.items():
        assert type(got.attrs[key]) is type(value)
        np.testing.assert_array_equal(got.attrs[key], value)
    if isinstance(want, h5py.Dataset):
        np.testing.assert_array_equal(got.array(), np.asarray(want), strict=True)
        return 1
    assert set(want) == set(got)
    return sum([assert_same(want[k], got[k]) for k in want])


@pytest.mark.parametrize(
    ("form", "many", "order"),
    [
        pytest.param(form, many, order, marks=[pytest.mark.slow] if many > 40 and (form in FORMS[1:] or order) else [])
        for form in FORMS
        for many in (3, 40, 900)
        for order in (False, True)
    ],
)
def test_read_as_h5py_reads_it(form: Any, many: int, order: bool) -> None:
    data = written(many, form, order)
    assert assert_same(h5py.File(io.BytesIO(data)), opened(memoryview(data))) == many


def test_behind_other_bytes() -> None:
    data = written(3, userblock_size=1024)
    assert assert_same(h5py.File(io.BytesIO(data)), opened(memoryview(data))) == 3


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}], ids=str)
def test_chunks(options: dict[str, Any]) -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as f:
        for k, shape in enumerate([(7,), (100, 70), (5, 6, 7)]):
            data = np.random.default_rng(k).standard_normal(shape)
            f.create_dataset(str(k), data=data, chunks=tuple([min(n, 4) for n in shape]), **options)
    assert assert_same(h5py.File(file), opened(file.getbuffer())) == 3


def test_weights_are_not_copied() -> None:
    data = memoryview(written(3))
    weight = opened(data)["weights/w1"].array()
    assert np.shares_memory(weight, np.frombuffer(data, np.uint8))


def test_each_dataset_once() -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as f:
        f["a/w"] = np.zeros(2)
        f["b"] = f["a"]
        f["a/again"] = f
    assert len([*opened(file.getbuffer()).datasets()]) == 1


def _soft(f: Any) -> None:
    f["x"] = h5py.SoftLink("/y")


def _elsewhere(f: Any) -> None:
    f["x"] = h5py.ExternalLink("/etc/other.h5", "y")


def _other_file(f: Any) -> None:
    f.create_dataset("x", (4,), "f4", external=[("/etc/hostname", 0, 16)])


def _virtual(f: Any) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "y", (4,))
    f.create_virtual_dataset("x", layout)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (_soft, "'x' in another place or file"),
        (_elsewhere, "'x' in another place or file"),
        (_other_file, "weights in other files"),
        (_virtual, "weights in such chunks as version 1.10"),
        (
            lambda f: f.create_dataset("x", (4,), "f4", chunks=(2,), compression="lzf"),
            "weights packed by the filter 32000",
        ),
        (
            lambda f: f.create_dataset("x", data=np.zeros(2, "c8")),
            "records, which is not read; save the model again with Keras",
        ),
        (lambda f: f.create_dataset("x", data=["a"]), "strings in place of a weight"),
        (lambda f: f.create_dataset("x", (1 << 40,), "f4"), "was never written"),
    ],
)
def test_what_keras_does_not_write(write: Any, text: str) -> None:
    """What lies in other files is never read."""
    file = io.BytesIO()
    with h5py.File(file, "w") as f:
        write(f)
    with pytest.raises(ModelError, match=text):
        opened(file.getbuffer())["x"].array()


def read_all(group: Group) -> None:
    """Every value in a file."""
    seen = {group.address}
    left: list[Any] = [group]
    while left:
        item = left.pop()
        [*item.attrs.values()]
        if not isinstance(item, Group):
            item.array()
            continue
        fresh = [x for x in item.values() if x.address not in seen]
        seen |= {x.address for x in fresh}
        left += fresh


@pytest.mark.parametrize("form", ["earliest", "latest"])
def test_damage_is_refused(form: str) -> None:
    """Whatever bytes there are, they are read or refused."""
    whole = written(30, form)
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(400):
        changed = bytearray(whole)
        for at in rng.integers(0, len(whole), 6):
            changed[at] = rng.integers(256)
        try:
            read_all(opened(memoryview(changed)[: rng.integers(len(whole) // 2, len(whole) * 8)]))
        except ModelError as error:
            refused += "the HDF5 file" in str(error)
    assert refused > 100


def test_checksum() -> None:
    """What the function's author says of it."""
    assert checksum(memoryview(b"")) == 0xDEADBEEF
    assert checksum(memoryview(b"Four score and seven years ago")) == 0x17770551
