"""Symbols and files of arrays as MXNet writes them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def symbol(kind: str, inputs: Sequence[str], results: int = 1, **attrs: Any) -> str:
    """A graph of one node named "node"."""
    nodes: list[Any] = [{"op": "null", "name": name, "inputs": []} for name in inputs]
    text = {k: str(v) for k, v in attrs.items()}
    nodes.append({"op": kind, "name": "node", "attrs": text, "inputs": [[k, 0, 0] for k in range(len(inputs))]})
    heads = [[len(inputs), k, 0] for k in range(results)]
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(len(inputs))), "heads": heads})


CODES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}


def arrays_file(arrays: Mapping[str, Array], magic: int = 0xF993FAC9) -> bytes:
    """A `.params` file, in the form of one of the versions."""
    out = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for a in arrays.values():
        out.append(struct.pack("<I", magic) if magic else struct.pack("<I", a.ndim))
        out.append(struct.pack("<i", 0) if magic in (0xF993FAC9, 0xF993FACA) else b"")
        out.append(struct.pack(f"<I{a.ndim}q", a.ndim, *a.shape) if magic else struct.pack(f"<{a.ndim}I", *a.shape))
        out.append(struct.pack("<iii", 1, 0, CODES[a.dtype.name]) + a.tobytes())
    out.append(struct.pack("<Q", len(arrays)))
    for name in arrays:
        out.append(struct.pack("<Q", len(name)) + name.encode())
    return b"".join(out)
