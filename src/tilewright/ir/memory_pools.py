"""Memories that a model's intermediate tensors and constants are to lie in, as `relay.build` is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.node import Node
from tilewright.support.errors import TVMError

UNLIMITED = -1


class PoolInfoProperties(Node, key="ir.PoolInfoProperties"):
    """Facts about a memory: its size in bytes, clock in Hz, bytes a cycle and cycles of latency, and bytes of a burst by target;
    -1: not known, or without a limit."""

    size_hint_bytes: int = UNLIMITED
    clock_frequency_hz: int = UNLIMITED
    read_bandwidth_bytes_per_cycle: int = UNLIMITED
    write_bandwidth_bytes_per_cycle: int = UNLIMITED
    read_latency_cycles: int = 0
    write_latency_cycles: int = 0
    target_burst_bytes: Mapping[Any, int] = {}


class PoolInfo(Node):
    """Root of the memories: a name, the targets that reach it, and its properties."""

    pool_name: str
    targets: tuple[Any, ...]
    pool_info_properties: PoolInfoProperties

    @property
    def size_hint_bytes(self) -> int:
        """The bytes that it holds; -1: any number."""
        return self.pool_info_properties.size_hint_bytes


class WorkspacePoolInfo(PoolInfo, key="ir.WorkspacePoolInfo"):
    """A memory that is read and written."""

    def __init__(
        self, pool_name: str, targets: Sequence[Any], pool_info_properties: PoolInfoProperties | None = None
    ) -> None:
        self._build(pool_name, tuple(targets), pool_info_properties or PoolInfoProperties())


class ConstantInfo(Node, key="ir.ConstantInfo"):
    """A constant's place in a memory: its name, offset in bytes, and value."""

    name_hint: str
    byte_offset: int
    data: Any


class ConstantPoolInfo(PoolInfo, key="ir.ConstantPoolInfo"):
    """A memory that is read, and what it holds already."""

    constant_info_array: tuple[ConstantInfo, ...] = ()

    def __init__(
        self,
        pool_name: str,
        targets: Sequence[Any],
        constant_info_arr: Sequence[ConstantInfo] | None = None,
        pool_info_properties: PoolInfoProperties | None = None,
    ) -> None:
        self._build(
            pool_name, tuple(targets), pool_info_properties or PoolInfoProperties(), tuple(constant_info_arr or ())
        )


class WorkspaceMemoryPools(Node, key="ir.WorkspaceMemoryPools"):
    """The memories for intermediate tensors, the preferred one first."""

    pools: tuple[WorkspacePoolInfo, ...]


class ConstantMemoryPools(Node, key="ir.ConstantMemoryPools"):
    """The memories for constants, the preferred one first."""

    pools: tuple[ConstantPoolInfo, ...]


def chosen_pool(pools: Sequence[PoolInfo], needed: int, what: str) -> PoolInfo:
    """The first memory that holds so many bytes. Raises TVMError, with the sizes of all, where none does."""
    for pool in pools:
        if pool.size_hint_bytes == UNLIMITED or pool.size_hint_bytes >= needed:
            return pool
    sizes = ", ".join([f"{p.pool_name} {p.size_hint_bytes:,}" for p in pools]) or "none was given"
    raise TVMError(
        f"the model needs {needed:,} bytes for its {what}, but no memory pool given for them holds as much: {sizes}."
        " tvm.relay.backend.compilation.plan_memory(mod) reports what fills them"
    )


__all__ = [
    "ConstantInfo",
    "ConstantMemoryPools",
    "ConstantPoolInfo",
    "PoolInfo",
    "PoolInfoProperties",
    "WorkspaceMemoryPools",
    "WorkspacePoolInfo",
    "chosen_pool",
]
