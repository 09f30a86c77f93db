"""Data types: parsing, interning, what they know of themselves, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tilewright.ir import DataType
from tilewright.node import load_json, save_json


@pytest.mark.parametrize(
    ("text", "code", "bits", "lanes", "size"),
    [
        ("float32", "float", 32, 1, 4),
        ("int8x16", "int", 8, 16, 1),
        ("uint64", "uint", 64, 1, 8),
        ("bool", "bool", 1, 1, 1),
        ("boolx4", "bool", 1, 4, 1),
        ("bfloat16x8", "bfloat", 16, 8, 2),
        ("handle", "handle", 64, 1, 8),
        ("void", "void", 0, 1, 0),
        ("float8_e4m3fn", "float8_e4m3fn", 8, 1, 1),
        ("float8_e5m2x2", "float8_e5m2", 8, 2, 1),
        ("int4", "int", 4, 1, 1),
    ],
)
def test_parts(text: str, code: str, bits: int, lanes: int, size: int) -> None:
    dtype = DataType(text)
    assert (dtype.code, dtype.type_code, dtype.bits, dtype.lanes, dtype.bytes) == (code, code, bits, lanes, size)
    assert dtype == text
    assert dtype.with_lanes(1) is dtype.element
    assert dtype.element.with_lanes(lanes) is dtype
    assert DataType(text) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert load_json(save_json(dtype)) is dtype


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("int", "int32"),
        ("uint", "uint32"),
        ("float", "float32"),
        ("uint1", "bool"),
        ("uint1x4", "boolx4"),
        ("", "void"),
    ],
)
def test_other_spellings(given: str, canonical: str) -> None:
    assert DataType(given) is DataType(canonical)


def test_types_of_numpy() -> None:
    assert DataType(np.float16) is DataType("float16")  # type: ignore[arg-type]
    assert DataType(np.dtype("int64")) is DataType("int64")  # type: ignore[arg-type]


def test_kinds() -> None:
    kinds = {
        t: [getattr(DataType(t), f"is_{k}") for k in ("int", "uint", "float", "bool")]
        for t in ("int8", "uint8", "bool", "bfloat16")
    }
    assert kinds == {
        "int8": [True, False, False, False],
        "uint8": [False, True, False, False],
        "bool": [False, True, False, True],
        "bfloat16": [False, False, True, False],
    }


@pytest.mark.parametrize(
    "text", ["floaty32", "int32x", "x4", "32", "bfloat", "int8x-2", "float32 ", "boolxx", "handlex-1"]
)
def test_unknown(text: str) -> None:
    with pytest.raises(TypeError, match=r"unknown data type .*expected one like 'float32', 'int8'"):
        DataType(text)


def test_not_a_name() -> None:
    with pytest.raises(TypeError, match="a data type is a string such as 'float32' or 'int8x16', but was given 3"):
        DataType(3)  # type: ignore[arg-type]
