"""The property that programs as text mean what they were: parse(print(f)) is structurally equal to f."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.driver.pipeline import host_pipeline, lower_phases
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import first_mismatch, structural_hash
from tilewright.script import from_source
from tilewright.tir import PrimFunc
from tilewright.tir.function import as_module


def assert_roundtrip(node: PrimFunc | IRModule) -> None:
    """Raises AssertionError with the text and the first difference when parsing does not give the program back."""
    text = node.script()
    back = from_source(text, check_well_formed=False)
    mismatch = first_mismatch(node, back, map_free_vars=True)
    assert mismatch is None, f"{mismatch}\n{text}"
    assert structural_hash(node, True) == structural_hash(back, True), f"equal programs of different hashes\n{text}"


def stages(func: PrimFunc, host: bool = True) -> Iterator[Any]:
    """The program before and after every pass of the pipeline that changes it."""
    mod = as_module(func)
    yield mod
    passes = [p for phase in lower_phases(PassContext.current()) for p in phase]
    if host:
        passes += host_pipeline("llvm").passes
    for p in passes:
        new = p(mod)
        if new is not mod:
            mod = new
            yield mod
