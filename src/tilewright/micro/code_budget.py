"""Plans of kernels whose code takes no more bytes together than are given, and that are the fastest of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.codegen.backend import back_end_of
from tilewright.ir import IRModule
from tilewright.micro.linking.elf import ElfObject
from tilewright.relay.backend.kernels.machine_code import cached_object, lowered
from tilewright.target import Target
from tilewright.tir import PrimFunc


class Choice(NamedTuple):
    """A plan of a kernel, {} where the cost model decides; what its runs cost in one of the model; the bytes of its code."""

    plan: dict[str, Any]
    cost: float
    bytes: int


def kernel_object(program: IRModule, name: str, target: Target) -> ElfObject:
    """The object of a scheduled kernel, as builds of models compile it."""
    (func,) = program.functions.values()
    assert isinstance(func, PrimFunc)
    code = back_end_of(target).emit(lowered(func.with_attr("global_symbol", name), target), target)
    return ElfObject(name, cached_object(code, target))


def code_bytes(o: ElfObject) -> int:
    """The bytes of code and constants of an object, without what linkers leave out."""
    return sum(
        [s.size for s in o.sections if s.kind in ("text", "rodata") and not s.name.startswith(f".text.{o.name}")]
    )


def fastest_within(kernels: Sequence[Sequence[Choice]], budget: int) -> list[Choice]:
    """A choice for each kernel, so that they cost the least together in `budget` bytes; the smallest of all where none fit."""
    found: list[tuple[int, float, list[Choice]]] = [(0, 0.0, [])]
    for choices in kernels:
        made = [(size + c.bytes, cost + c.cost, [*picked, c]) for size, cost, picked in found for c in choices]
        made.sort(key=lambda m: m[:2])
        found = []
        for each in made:
            # Of equal or more bytes, only what costs less is of use.
            if not found or each[1] < found[-1][1]:
                found.append(each)
    return ([f for f in found if f[0] <= budget] or found[:1])[-1][2]


__all__ = ["Choice", "code_bytes", "fastest_within", "kernel_object"]
