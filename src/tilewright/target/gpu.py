"""Facts about GPUs: limits of blocks and multiprocessors, memory, matrix units, rates. `architectures/` has them as data with their
sources, a file for each compute capability of NVIDIA and one for each other kind of target; attributes of a target take precedence."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from tilewright.support.errors import TVMError
from tilewright.target.occupancy import Occupancy, occupancy

NVIDIA = ("cuda", "nvptx")
_GROUPS = ("matrix", "device", "multiply_adds")


class MatrixUnit(NamedTuple):
    """Matrix instructions of one kind and type.

    `instruction` is "wmma" (CUDA C), "mma" (PTX mma.sync), "wgmma" or "tcgen05"; `dtype` the type of the factors ("tf32" is float32 with 10
    bits of fraction); `sums` types of the sums; `shapes` of one instruction, (m, n, k); `multiply_adds` of a multiprocessor in a cycle:
    the rate of the units, of which mma reaches about two thirds where there is wgmma.
    """

    instruction: str
    dtype: str
    sums: tuple[str, ...]
    shapes: tuple[tuple[int, int, int], ...]
    multiply_adds: int


class GpuFacts(NamedTuple):
    """A GPU. Memory in bytes, bandwidth in bytes a second, clocks in Hz; 0 and "": not known."""

    arch: str
    """Such as "sm_90a"; the kind of target where it has no architectures."""
    device: str
    """The device whose multiprocessors, clocks and memory these are: the model or the tag that the target names, else a common one."""
    warp_size: int
    """Threads that run in lockstep."""
    max_threads_per_block: int
    max_threads_along: tuple[int, int, int]
    """Threads of a block along x, y and z."""
    shared_memory_per_block: int
    """What a block may declare."""
    shared_memory_per_block_optin: int
    """What it may have as dynamic shared memory where the launch asks for more."""
    features: frozenset[str]
    """Of ldmatrix, stmatrix, cp_async, mbarrier, tma, clusters, wgmma, setmaxnreg, tcgen05."""
    matrix: tuple[MatrixUnit, ...]
    multiply_adds: Mapping[str, int]
    """Multiply-adds of a multiprocessor in a cycle without matrix units, by type."""
    max_threads_per_multiprocessor: int = 0
    max_blocks_per_multiprocessor: int = 0
    max_registers_per_thread: int = 0
    registers_per_block: int = 0
    registers_per_multiprocessor: int = 0
    register_granularity: int = 1
    """A warp's registers are a multiple of this number."""
    warp_granularity: int = 1
    """Schedulers of a multiprocessor; each has its part of the registers."""
    shared_memory_per_multiprocessor: int = 0
    shared_memory_reserved: int = 0
    """What the system takes of each block's."""
    shared_memory_granularity: int = 1
    shared_memory_banks: int = 0
    bank_bytes: int = 0
    """What a bank gives in a cycle."""
    sector_bytes: int = 0
    """The unit of transfers from the second cache and memory."""
    line_bytes: int = 0
    max_cluster_blocks: int = 1
    special_functions: int = 0
    """Results of special functions (exponentials, logarithms, roots, sines) of a multiprocessor in a cycle."""
    multiprocessors: int = 0
    clock: float = 0.0
    matrix_clock: float = 0.0
    """The clock under load of the matrix units, on which their stated peaks are based."""
    l2_bytes: int = 0
    memory_bandwidth: float = 0.0
    wide_sums: float = 1.0
    """Share of the rate of matrix units with factors of 16 bits or fewer and sums in float32."""

    @property
    def max_warps_per_multiprocessor(self) -> int:
        return self.max_threads_per_multiprocessor // self.warp_size

    @property
    def has_ldmatrix(self) -> bool:
        return "ldmatrix" in self.features

    @property
    def has_cp_async(self) -> bool:
        return "cp_async" in self.features

    @property
    def has_mbarrier(self) -> bool:
        return "mbarrier" in self.features

    @property
    def has_tma(self) -> bool:
        return "tma" in self.features

    @property
    def has_wgmma(self) -> bool:
        return "wgmma" in self.features

    @property
    def has_tcgen05(self) -> bool:
        return "tcgen05" in self.features

    def matrix_units(self, dtype: str, sums: str = "", instruction: str = "") -> list[MatrixUnit]:
        """The matrix units for factors of a type, the fastest first; with sums of a type, or of one kind of instruction, where asked."""
        found = [
            unit
            for unit in self.matrix
            if unit.dtype == dtype and (not sums or sums in unit.sums) and instruction in ("", unit.instruction)
        ]
        return sorted(found, key=lambda unit: -unit.multiply_adds)

    def peak(self, dtype: str, sums: str = "", matrix: bool = True) -> float:
        """Operations a second (a multiply-add counts two) with factors of a type; matrix: of the matrix units, where they take the type.
        Types without a rate of their own are computed in float32. 0 where it is not known."""
        units = self.matrix_units(dtype, sums) if matrix else []
        if units:
            halved = sums == "float32" and dtype not in ("tf32", "float64")
            share = self.wide_sums if halved else 1.0
            return 2 * units[0].multiply_adds * self.multiprocessors * self.matrix_clock * share
        rate = self.multiply_adds.get(dtype) or self.multiply_adds.get("float32", 0)
        return 2 * rate * self.multiprocessors * self.clock

    def occupancy(self, threads: int, registers: int = 0, shared_memory: int = 0) -> Occupancy:
        """What a multiprocessor holds of a kernel: threads of a block, registers of a thread, shared memory of a block in bytes. TVMError
        where a block exceeds a limit, or the target is not one of NVIDIA's."""
        if not self.max_threads_per_multiprocessor:
            raise TVMError(
                f"nothing is known of the multiprocessors of {self.arch}; ask for a target of kind cuda or nvptx"
            )
        return occupancy(self, threads, registers, shared_memory)


@lru_cache
def _table(name: str) -> dict[str, Any]:
    """What the file of an architecture states, over that of its relative."""
    text = (files("tilewright.target") / "architectures" / f"{name}.toml").read_text(encoding="utf-8")
    own = tomllib.loads(text)
    relative = own.pop("relative", None)
    return {**_table(relative), **own} if relative else own


@lru_cache
def _capabilities() -> tuple[int, ...]:
    """The compute capabilities that have files, such as 80."""
    names = [f.name for f in (files("tilewright.target") / "architectures").iterdir()]
    return tuple(sorted([int(n[3:-5]) for n in names if n.startswith("sm_") and n.endswith(".toml")]))


def _architecture(arch: str) -> tuple[str, bool]:
    """The file of an architecture such as "sm_90a", and whether code may use what only the architecture itself has. One without a file has
    that of the newest older one."""
    found = re.fullmatch(r"(?:sm|compute)_(\d+)([af]?)", arch)
    if found is None:
        raise TVMError(f'the architecture of target cuda is written like "sm_80", but {arch!r} was given')
    number = int(found[1])
    older = [known for known in _capabilities() if known <= number]
    return f"sm_{max(older, default=_capabilities()[0])}", bool(found[2])


def _shapes(text: str) -> tuple[tuple[int, int, int], ...]:
    """`16x8x16` as (16, 8, 16); `64x8..256x16` with each multiple of 8 from 8 to 256."""
    made: list[tuple[int, int, int]] = []
    for shape in text.split():
        m, n, k = shape.split("x")
        first, _, last = n.partition("..")
        made += [(int(m), width, int(k)) for width in range(int(first), int(last or first) + 1, int(first))]
    return tuple(made)


@lru_cache
def _units(name: str, features: frozenset[str]) -> tuple[MatrixUnit, ...]:
    """The matrix units of an architecture that the features allow."""
    rows = [
        r for r in _table(name).get("matrix", ()) if r["instruction"] in ("wmma", "mma") or r["instruction"] in features
    ]
    return tuple(
        [
            MatrixUnit(r["instruction"], dtype, tuple(r["sums"].split()), _shapes(r["shapes"]), r["multiply_adds"])
            for r in rows
            for dtype in r["types"].split()
        ]
    )


def _device(devices: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """The device of one of the names, else the first one."""
    asked = {n.rpartition("/")[2].lower().removeprefix("nvidia-") for n in names if n}
    return dict(next((d for d in devices if d["name"] in asked), devices[0] if devices else {"name": ""}))


def gpu_facts(kind: str, attrs: Mapping[str, Any], tag: str = "") -> GpuFacts:
    """The facts of a target of a kind, with attributes, perhaps made of a tag. TVMError for kinds of which nothing is known.

    `-arch` (for nvptx also `-mcpu`) chooses the architecture, `-model` or the tag the device. `-max_shared_memory_per_block` below what
    blocks may declare lowers that; above, it is what they may ask for; what CUDA gives to all blocks, as in the tags, changes nothing.
    """
    if kind not in (*NVIDIA, "opencl", "metal"):
        raise TVMError(f"target kind {kind!r} has no facts of a GPU; kinds that have: cuda, nvptx, opencl, metal")
    arch = str(attrs.get("mcpu") or attrs.get("arch") or "sm_70") if kind == "nvptx" else str(attrs.get("arch", kind))
    name, own = _architecture(arch) if kind in NVIDIA else (kind, False)
    table = dict(_table(name))
    features = frozenset(f"{table['features']} {table.get('own_features', '') if own else ''}".split())
    device = _device(table.get("device", []), (str(attrs.get("model", "")), tag))
    table |= device
    numbers = {key: value for key, value in table.items() if key in GpuFacts._fields and key not in _GROUPS}
    clock = 1e6 * table.get("clock_mhz", 0)
    numbers |= {"clock": clock, "matrix_clock": 1e6 * table.get("matrix_clock_mhz", 0) or clock}
    numbers |= _given(attrs, table)
    return GpuFacts(
        **{
            **numbers,
            "arch": arch if kind in NVIDIA else kind,
            "device": device["name"],
            "features": features,
            "max_threads_along": tuple(table["max_threads_along"]),
            "matrix": _units(name, features),
            "multiply_adds": table.get("multiply_adds", {}),
        }
    )


def _given(attrs: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, int]:
    """What attributes say."""
    shared = table["shared_memory_per_block"]
    most = table.get("shared_memory_per_block_optin", shared)
    asked = int(attrs.get("max_shared_memory_per_block", shared))
    made = {
        "shared_memory_per_block": min(shared, asked),
        "shared_memory_per_block_optin": most if asked == shared else asked,
    }
    names = {
        "max_threads_per_block": attrs.get("max_threads_per_block", attrs.get("max_num_threads")),
        "warp_size": attrs.get("thread_warp_size"),
        "registers_per_block": attrs.get("registers_per_block"),
        "l2_bytes": attrs.get("l2_cache_size_bytes"),
    }
    return made | {name: int(value) for name, value in names.items() if value is not None}


__all__ = ["GpuFacts", "MatrixUnit", "Occupancy", "gpu_facts"]
