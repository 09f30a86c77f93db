"""The runtime for microcontrollers (native/c99), compiled by this machine's compiler with warnings as errors, and called from Python."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
from ctypes import CFUNCTYPE, POINTER, Structure, c_int32, c_size_t, c_uint8, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.micro.device_runtime import WARNINGS, source_folder
from tilewright.micro.templates.program import ORDERED
from tilewright.runtime.dtype import parse_dtype
from tilewright.runtime.linking.c_source import compiler_command

PORTABLE = ("runtime.c", "pages.c", "graph.c", "platform.c", "silent.c")
Kernel = CFUNCTYPE(c_int32, POINTER(c_void_p))


class Pages(Structure):
    _fields_ = [("memory", POINTER(c_uint8)), ("state", POINTER(c_uint8)), ("page", c_size_t), ("count", c_size_t)]


class Value(Structure):
    _fields_ = [("place", c_uint32), ("offset", c_uint32)]


class Node(Structure):
    _fields_ = [("kernel", Kernel), ("first", c_uint32), ("count", c_uint32)]


class Graph(Structure):
    _fields_ = [
        ("nodes", POINTER(Node)), ("values", POINTER(Value)), ("constants", c_void_p), ("node_count", c_uint32), ("input_count", c_uint32),
        ("output_count", c_uint32), ("most_arguments", c_uint32),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The portable sources as a library. They must compile without a warning at any level of optimisation."""
    root, out = source_folder(), tmp_path_factory.mktemp("c99") / "runtime.so"
    sources = [str(root / "src" / name) for name in PORTABLE]
    for level in ("-O0", "-Os", "-O3"):
        command = [
            *compiler_command("c"),
            *WARNINGS,
            level,
            "-fPIC",
            "-shared",
            f"-I{root / 'include'}",
            *sources,
            "-o",
            str(out),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
    found = ctypes.CDLL(str(out))
    found.tw_workspace_take.restype = found.tw_pages_take.restype = c_void_p
    found.tw_workspace_peak.restype = found.tw_pages_free.restype = c_size_t
    found.tw_platform_random.restype = c_uint32
    return found


def text_of(library: Any, name: str, size: int) -> str:
    return bytes((c_uint8 * size).in_dll(library, name)).split(b"\0")[0].decode()


def test_temporaries(library: Any) -> None:
    memory = (c_uint8 * 1024)()
    library.tw_start(memory, c_size_t(1024))
    begin = ctypes.addressof(memory)
    first = library.tw_workspace_take(c_size_t(100))
    second = library.tw_workspace_take(c_size_t(1))
    assert begin + 16 <= first and first + 112 + 16 <= second and (second - begin) % 16 == 0
    assert library.tw_workspace_give(c_void_p(first)) == -3
    assert text_of(library, "tw_error_kind", 24) == "ValueError" and "opposite order" in text_of(
        library, "tw_error_text", 168
    )
    assert library.tw_workspace_take(c_size_t(1024)) is None and library.tw_workspace_take(c_size_t(2**63)) is None
    assert library.tw_workspace_give(c_void_p(second)) == 0 and library.tw_workspace_give(c_void_p(first)) == 0
    assert library.tw_workspace_give(c_void_p(first)) == -3
    whole = library.tw_workspace_take(c_size_t(1024 - 16))
    assert whole is not None and library.tw_workspace_peak() == 1024
    library.tw_start(None, c_size_t(0))
    assert library.tw_workspace_take(c_size_t(1)) is None and text_of(library, "tw_error_kind", 24) == "ValueError"
    library.tw_clear_error()
    assert text_of(library, "tw_error_kind", 24) == ""


def test_temporaries_against_a_stack(library: Any) -> None:
    rng, memory, held = random.Random(2), (c_uint8 * 4096)(), []
    library.tw_start(memory, c_size_t(4096))
    for _ in range(3000):
        if held and rng.random() < 0.5:
            address, size, mark = held.pop()
            assert set(ctypes.string_at(address, size)) <= {mark}
            assert library.tw_workspace_give(c_void_p(address)) == 0
            continue
        size, mark = rng.randrange(1, 300), rng.randrange(256)
        address = library.tw_workspace_take(c_size_t(size))
        if address is not None:
            ctypes.memset(address, mark, size)
            held.append((address, size, mark))


def test_pages_against_a_plain_model(library: Any) -> None:
    rng, page, count = random.Random(3), 32, 40
    memory, state, pages = (c_uint8 * (page * count))(), (c_uint8 * count)(), Pages()
    library.tw_pages_begin(ctypes.byref(pages), memory, c_size_t(page), state, c_size_t(count))
    begin, held = ctypes.addressof(memory), {}
    for _ in range(4000):
        if held and rng.random() < 0.5:
            address = rng.choice([*held])
            assert library.tw_pages_give(ctypes.byref(pages), c_void_p(address)) == 0
            del held[address]
        else:
            size = rng.randrange(0, 200)
            needed = max(1, -(-size // page))
            taken = {k for a, n in held.items() for k in range((a - begin) // page, (a - begin) // page + n)}
            first = next((k for k in range(count - needed + 1) if not taken & set(range(k, k + needed))), None)
            found = library.tw_pages_take(ctypes.byref(pages), c_size_t(size))
            assert found == (None if first is None else begin + first * page)
            if found is not None:
                held[found] = needed
        assert library.tw_pages_free(ctypes.byref(pages)) == page * (count - sum(held.values()))
    for wrong in (begin - 1, begin + 1, begin + page * count):
        assert library.tw_pages_give(ctypes.byref(pages), c_void_p(wrong)) == -3
    for address, n in held.items():
        if n > 1:
            assert library.tw_pages_give(ctypes.byref(pages), c_void_p(address + page)) == -3


def test_graphs(library: Any) -> None:
    """y = (x + c) * 2, by two kernels over constants and a workspace."""
    seen: list[int] = []

    def at(args: Any, k: int) -> Any:
        return ctypes.cast(args[k], POINTER(c_int32))

    def add(args: Any) -> int:
        seen.append(1)
        at(args, 2)[0] = at(args, 0)[0] + at(args, 1)[0]
        return 0

    def double(args: Any) -> int:
        seen.append(2)
        at(args, 1)[0] = 2 * at(args, 0)[0]
        return 0

    kernels = [Kernel(add), Kernel(double), Kernel(lambda args: 7)]
    values = (Value * 5)((0, 0), (2, 4), (3, 8), (3, 8), (1, 0))
    nodes = (Node * 3)((kernels[0], 0, 3), (kernels[1], 3, 2), (kernels[2], 0, 1))
    constants = (c_int32 * 2)(0, 5)
    x, y, workspace, args = c_int32(16), c_int32(), (c_uint8 * 64)(), (c_void_p * 3)()
    inputs, outputs = (c_void_p * 1)(ctypes.addressof(x)), (c_void_p * 1)(ctypes.addressof(y))

    def run(count: int, most: int = 3, input_count: int = 1) -> int:
        graph = Graph(nodes, values, ctypes.addressof(constants), count, input_count, 1, most)
        return int(library.tw_graph_run(ctypes.byref(graph), inputs, outputs, workspace, args))

    assert run(2) == 0 and y.value == 42 and seen == [1, 2]
    assert run(3) == 7  # what a kernel returns
    assert run(2, most=2) == -4 and run(2, input_count=0) == -4
    values[0] = Value(9, 0)
    assert run(2) == -4


def test_random_numbers(library: Any) -> None:
    found = [library.tw_platform_random() for _ in range(1000)]
    assert len(set(found)) == 1000 and 450 < sum([v >> 31 for v in found]) < 550


def test_long_errors_are_cut(library: Any) -> None:
    library.tw_set_error(b"K" * 100, b"m" * 500)
    assert text_of(library, "tw_error_kind", 24) == "K" * 23 and text_of(library, "tw_error_text", 168) == "m" * 167
    library.tw_clear_error()
    assert text_of(library, "tw_error_text", 168) == ""


def test_sources_include_nothing_but_string_h() -> None:
    root = source_folder()
    included = {
        line.split()[1]
        for path in [*root.rglob("*.c"), *root.rglob("*.h")]
        for line in Path(path).read_text().splitlines()
        if line.startswith("#include")
    }
    assert included == {
        "<stddef.h>",
        "<stdint.h>",
        "<string.h>",
        '"tilewright/micro.h"',
        '"tilewright/micro_program.h"',
        '"tilewright/micro_rpc.h"',
        '"tilewright/micro_rpc_functions.h"',
        '"tilewright/micro_serial.h"',
        '"tilewright/micro_session.h"',
    }


class ModelValue(Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("data", c_void_p), ("shape", POINTER(ctypes.c_int64)), ("rank", c_int32),
        ("code", c_uint8), ("bits", c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def place_of_the_largest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`largest` of the program without a client, which has no client that could compare the whole output."""
    root, out = source_folder(), tmp_path_factory.mktemp("standalone") / "largest.so"
    source = out.with_suffix(".c")
    source.write_text(
        '#include "standalone.c"\nsize_t place(const struct tw_model_value* value) { return largest(value); }\n'
    )
    command = [
        *compiler_command("c"), *WARNINGS, "-Wno-missing-prototypes", "-O2", "-fPIC", "-shared", f"-I{root / 'include'}",
        f"-I{root / 'src'}", str(source), str(root / "src" / "runtime.c"), "-o", str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    found = ctypes.CDLL(str(out), mode=ctypes.RTLD_LOCAL | os.RTLD_LAZY).place
    found.restype = c_size_t

    def place(values: np.ndarray[Any, Any], dtype: str) -> int:
        shape = (ctypes.c_int64 * 1)(len(values))
        return int(found(ctypes.byref(ModelValue(b"y", b"", values.ctypes.data, shape, 1, *parse_dtype(dtype)))))

    return place


@pytest.mark.parametrize("dtype", sorted(ORDERED))
def test_the_largest_element(place_of_the_largest: Any, dtype: str) -> None:
    numpy = np.dtype(getattr(ml_dtypes, dtype, dtype))
    kinds: list[list[Any]] = [[1, 0, 3, 2], [0, 0], [1, 1], [3]]
    if numpy.kind not in "ub":
        kinds += [[-3, -1, -2], [-1, 0, -2], [-2, 1]]
    if numpy.kind in "iu":
        low, high = np.iinfo(numpy).min, np.iinfo(numpy).max
        kinds += [[high - 1, high], [low, low + 1, low], [high // 2, high // 2 + 1], [low, high, 0]]
    elif numpy.kind != "b":
        kinds += [[1, 0.5, 3, 2], [0.1, 3, 2, 1], [-0.0, 0.0], [0.0, -0.0], [-np.inf, -1], [1, np.inf], [1e-7, 2e-7]]
        kinds += [[1, np.nan, np.inf], [-np.nan, 1], [np.nan, np.nan]]
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 256, (50, 24 * numpy.itemsize), "uint8")
    with np.errstate(over="ignore", under="ignore"):
        rows = [np.array(v, numpy if numpy.kind in "iub" else "float64").astype(numpy) for v in kinds]
    rows += [row.astype(bool) if numpy.kind == "b" else row.view(numpy) for row in bits]
    for values in rows:
        # NumPy's own order of 16 bits of bfloat16 is not sure to know NaN; float64 holds all of the floating point types.
        with np.errstate(invalid="ignore"):
            wide = values if numpy.kind in "iub" else values.astype("float64")
        assert place_of_the_largest(values, dtype) == int(wide.argmax()), values
