"""A host of the virtual machine that has no Python in it: how it is compiled, and values as it reads and writes them."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from tilewright import runtime
from tilewright.runtime import _ffi
from tilewright.runtime.container import ADT

HERE = Path(__file__).parent


@cache
def host() -> Path:
    """The compiled host, by the machine's compiler or by zig."""
    binary = Path(mkdtemp(prefix="tilewright-host-")) / "host"
    library = Path(_ffi.__file__).parent / "libtilewright_runtime.so"
    headers = HERE.parents[2] / "native" / "include"
    compiler = ["c++"] if shutil.which("c++") else [sys.executable, "-m", "ziglang", "c++"]
    options = ["-std=c++17", "-O1", f"-I{headers}", str(HERE / "host.cc"), str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([*compiler, *options, "-o", str(binary)], check=True)
    return binary


def packed(value: Any) -> bytes:
    """A tensor or a value of a data type as bytes."""
    if isinstance(value, ADT):
        return b"A" + struct.pack("<2i", value.tag, len(value)) + b"".join([packed(v) for v in value])
    array = value.numpy()
    code = runtime.parse_dtype(str(array.dtype))
    return b"T" + struct.pack(f"<4i{array.ndim}q", *code, array.ndim, *array.shape) + array.tobytes()


def unpacked(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value that begins at a place, and where it ends."""
    if data[at : at + 1] == b"A":
        tag, count = struct.unpack_from("<2i", data, at + 1)
        at += 9
        fields = []
        for _ in range(count):
            field, at = unpacked(data, at)
            fields.append(field)
        return ADT(tag, fields), at
    code, bits, lanes, ndim = struct.unpack_from("<4i", data, at + 1)
    shape = struct.unpack_from(f"<{ndim}q", data, at + 17)
    dtype = np.dtype(runtime.to_numpy_dtype(runtime.dtype_name(code, bits, lanes)))
    at += 17 + 8 * ndim
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return runtime.array(np.frombuffer(data[at : at + size], dtype).reshape(shape)), at + size


def run_in_host(library: Path, args: list[Any], folder: Path, *graph: Path) -> Any:
    """The result of main, from a process that never heard of Python; with the files of a graph and of its parameters, the first
    output of the graph."""
    given, result = folder / "arguments", folder / "result"
    given.write_bytes(struct.pack("<i", len(args)) + b"".join([packed(a) for a in args]))
    done = subprocess.run([host(), library, given, result, *graph], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return unpacked(result.read_bytes())[0]
