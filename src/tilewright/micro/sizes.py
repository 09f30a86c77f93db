"""Sizes of memory in the description of a package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.ir import DataType
from tilewright.relay.backend.executor_factory import KernelSources
from tilewright.relay.backend.kernels import machine_code
from tilewright.tir import IntImm, PrimFunc
from tilewright.tir.analysis import calculate_constant_bytes, calculate_workspace_bytes


def _bytes(shape: Any, dtype: str) -> int:
    size = 1
    for extent in shape:
        size *= int(extent)
    kind = DataType(dtype)
    return size * (1 if kind.is_bool else kind.bytes)


def main_memory(facts: Mapping[str, Any], device: int) -> dict[str, Any]:
    """Sizes of a model, from its metadata."""
    tensors = {
        kind: {t["name"]: {"size": _bytes(t["shape"], t["dtype"]), "dtype": t["dtype"]} for t in facts[kind]}
        for kind in ("inputs", "outputs")
    }
    return {
        "device": device,
        "workspace_size_bytes": int(facts["workspace_bytes"]),
        "constants_size_bytes": int(facts["constants_bytes"]),
        "io_size_bytes": sum([t["size"] for of in tensors.values() for t in of.values()]),
        **tensors,
    }


def operator_memory(texts: KernelSources, prefix: str, device: int) -> list[dict[str, Any]]:
    """Sizes of each kernel: temporaries, constants in its code, arguments."""
    found = []
    for name, kernel in texts.kernels.items():
        target = texts.targets.get(name, texts.target)
        with target:
            func = machine_code.scheduled(kernel.func, target, kernel.plan)
        arguments = operator_parameters(func) or []
        size = {
            "workspace_size_bytes": calculate_workspace_bytes(func, 1),
            "constants_size_bytes": calculate_constant_bytes(func, 1),
            "io_size_bytes": sum([a["size_bytes"] for a in arguments]),
        }
        found.append({
            "function_name": prefix + name,
            **{key.split("_")[0]: [{"device": device, key: value}] for key, value in size.items()},
        })  # fmt: skip
    return found


def operator_parameters(func: PrimFunc) -> list[dict[str, Any]] | None:
    """The tensors among the parameters of a function; None where an extent is not constant."""
    found = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            continue
        if not all([isinstance(e, IntImm) for e in buffer.shape]):
            return None
        shape = [e.value for e in buffer.shape if isinstance(e, IntImm)]
        dtype = str(buffer.dtype)
        found.append(
            {"size_bytes": _bytes(shape, dtype), "shape": shape, "dtype": dtype, "input_binding": str(buffer.name)}
        )
    return found


def storage_memory(graph_json: str) -> list[dict[str, Any]]:
    """The storages of a graph: their sizes, and the inputs that are bound to them."""
    graph = json.loads(graph_json)
    attrs = graph["attrs"]
    sizes: dict[int, int] = {}
    for sid, shape, dtype in zip(attrs["storage_id"][1], attrs["shape"][1], attrs["dltype"][1], strict=True):
        sizes[sid] = max(sizes.get(sid, 0), _bytes(shape, dtype))
    rows = graph["node_row_ptr"]
    bound = {attrs["storage_id"][1][rows[n]]: graph["nodes"][n]["name"] for n in graph["arg_nodes"]}
    return [
        {"storage_id": sid, "size_bytes": size, "input_binding": bound.get(sid, "")}
        for sid, size in sorted(sizes.items())
    ]


__all__ = ["main_memory", "operator_memory", "operator_parameters", "storage_memory"]
