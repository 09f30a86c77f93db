"""The numbers of a machine by which programs are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.target import Target

CACHE_LINE = 64


@dataclass(init=False)
class HardwareParams:
    """What is not given is that of `target`; without one, that of this machine. Sizes are in bytes; the numbers of GPUs are 0 for CPUs."""

    num_cores: int
    vector_unit_bytes: int
    cache_line_bytes: int
    max_shared_memory_per_block: int
    max_local_memory_per_block: int
    max_threads_per_block: int
    max_vthread_extent: int
    warp_size: int

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: Target | str | None = None,
        target_host: Target | str | None = None,
    ) -> None:
        def chosen(given: int | None, default: int) -> int:
            return default if given is None else given

        facts = None
        if num_cores is None or vector_unit_bytes is None:
            made = target if isinstance(target, Target) else Target(target or "llvm")
            facts = (made if "cpu" in made.keys else made.host or Target("llvm")).cpu
        self.num_cores = chosen(num_cores, facts.threads if facts else 0)
        self.vector_unit_bytes = chosen(vector_unit_bytes, facts.vector_bits // 8 if facts else 0)
        self.cache_line_bytes = chosen(cache_line_bytes, CACHE_LINE)
        self.max_shared_memory_per_block = chosen(max_shared_memory_per_block, 0)
        self.max_local_memory_per_block = chosen(max_local_memory_per_block, 0)
        self.max_threads_per_block = chosen(max_threads_per_block, 0)
        self.max_vthread_extent = chosen(max_vthread_extent, 0)
        self.warp_size = chosen(warp_size, 0)

    def to_json(self) -> list[int]:
        """The numbers as records have them."""
        return list(astuple(self))

    @classmethod
    def from_json(cls, data: Any) -> HardwareParams:
        """The numbers that `to_json` wrote. Raises TVMError for anything else."""
        if not isinstance(data, Sequence) or len(data) != 8 or not all([isinstance(n, int) for n in data]):
            raise TVMError(f"hardware parameters are 8 numbers, but these are {str(data)[:80]}")
        return cls(*data)
