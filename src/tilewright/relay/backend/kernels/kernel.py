"""Kernels, with the facts about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tilewright import tir
from tilewright.node import structural_digest
from tilewright.relay.backend.kernels.tensor_facts import (
    KernelFacts,
)
from tilewright.relay.expr import Function
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.tuning.record import Record


class Remarks(NamedTuple):
    """Remarks from scheduling a kernel: given decisions that do not fit, by name, with the reason; and fallbacks."""

    unfit: dict[str, str]
    fallbacks: list[str]


class Kernel:
    """One compiled primitive function.

    name: unique in its library; func: the PrimFunc, with inputs, outputs and dynamic sizes as parameters, which is composed at its first
    use; digest: identifies the kernel; told: whether this is the digest of its relay program, by which files of plans know it; flops,
    products, traffic, in_place, multiply_adds, overlaps, shared: as in KernelFacts; source: names of the model's nodes; program: the relay
    function, or None for a call of external code; plan: the decisions about the kernel, complete once it is scheduled, or None if the back
    end takes no schedules; record: what was measured of these decisions, if they are a tuner's; remarks: those from scheduling, once the
    kernel is compiled.
    """

    __slots__ = (
        "_compose", "_digest", "_func", "flops", "in_place", "multiply_adds", "name", "overlaps", "plan", "products", "program", "record",
        "remarks", "shared", "source", "told", "traffic",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        func: tir.PrimFunc | Callable[[], tir.PrimFunc],
        facts: KernelFacts,
        source: str,
        digest: bytes | None = None,
        program: Function | None = None,
        plan: KernelPlan | None = None,
        record: Record | None = None,
    ) -> None:
        self.plan, self.record = plan, record
        self.remarks = Remarks({}, [])
        self.told = digest is not None
        self.name, self._digest, self.program, self.source = name, digest, program, source
        self.flops, self.products, self.traffic = facts.flops, tuple(facts.products), tuple(facts.traffic)
        self.in_place, self.multiply_adds = tuple(facts.in_place), facts.multiply_adds
        self.overlaps, self.shared = tuple(facts.overlaps), facts.shared
        self._func: tir.PrimFunc | None = func if isinstance(func, tir.PrimFunc) else None
        self._compose: Callable[[], tir.PrimFunc] | None = None if isinstance(func, tir.PrimFunc) else func

    @property
    def moved_bytes(self) -> int:
        """The bytes that one call must move."""
        return sum(self.traffic)

    @property
    def func(self) -> tir.PrimFunc:
        if self._func is None:
            assert self._compose is not None
            self._func, self._compose = self._compose(), None
        return self._func

    @property
    def digest(self) -> bytes:
        if self._digest is None:
            self._digest = structural_digest(self.func)
        return self._digest

    @property
    def told_facts(self) -> dict[str, Any]:
        """What the metadata of a library says of some kernels only, once they are compiled: fallbacks, and the seconds of the record that
        decided the kernel, with those of the untuned kernel if they are known."""
        facts: dict[str, Any] = {}
        if self.remarks.fallbacks:
            facts["fallbacks"] = self.remarks.fallbacks
        if self.record is not None and not self.remarks.unfit:
            facts["record"] = {"seconds": self.record.median, "untuned": self.record.untuned}
        return facts
