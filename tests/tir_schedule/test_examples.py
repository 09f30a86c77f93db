"""Every primitive: the values stay, the state stays consistent, and its trace replays as Python, as JSON and as objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tir_schedule.examples import EXAMPLES
from tests.tir_schedule.random_programs.programs import random_inputs, run_program
from tilewright import tir
from tilewright.node import assert_structural_equal
from tilewright.script import from_source
from tilewright.tir.schedule import InstructionKind, Schedule, Trace

IDS = [f"{name}-{n}" for n, (name, _, _) in enumerate(EXAMPLES)]


def replays(s: Schedule, func: Any) -> None:
    """The trace of a schedule gives the same program in all three forms, and again its own text."""
    assert s.trace is not None
    for form in range(3):
        again = Schedule(func, seed=99, debug_mask="all")
        if form == 0:
            s.trace.apply_to_schedule(again, remove_postproc=False)
        elif form == 1:
            Trace.apply_json_to_schedule(json.loads(json.dumps(s.trace.as_json())), again)
        else:
            names: dict[str, Any] = {"tir": tir}
            exec(str(s.trace), names)
            names["apply_trace"](again)
        assert_structural_equal(again.mod["main"], s.mod["main"])
        assert again.trace is not None and again.trace.as_python() == s.trace.as_python()


@pytest.mark.parametrize(("name", "program", "call"), EXAMPLES, ids=IDS)
def test_example(name: str, program: Callable[[], Any], call: Callable[[Schedule], Any]) -> None:
    func = program()
    s = Schedule(func, seed=3, debug_mask="all")
    for ref in s.state.all_refs():
        if isinstance(ref.stmt, tir.Block):
            s.state._get_cached_flags(ref)
    call(s)
    assert s.trace is not None and any(f"sch.{name}(" in line for line in s.trace.as_python())
    inputs = random_inputs(func, [func.buffer_map[p].name for p in func.params][:-1])
    for a, b in zip(run_program(func, inputs), run_program(s.mod, inputs), strict=True):
        # Rescaled sums are rounded in other places.
        np.testing.assert_allclose(a, b, rtol=1e-6 if name == "online" else 0)
    replays(s, func)
    assert_structural_equal(from_source(str(s.mod["main"])), s.mod["main"])


def test_every_instruction_has_an_example() -> None:
    # What needs dynamic sizes is run in tests/scheduling/test_traces.py.
    shown = {name for name, _, _ in EXAMPLES} | {"add_version"}
    assert {kind.method for kind in InstructionKind.registry.values()} == shown


CLASSIC = (
    "SampleCategorical SamplePerfectTile SamplePartitionedTile SampleComputeLocation GetBlock GetLoops GetChildBlocks "
    "GetProducers GetConsumers GetOutputBlocks Merge Fuse Split LoopPartition Reorder ReorderBlockIterVar AddUnitLoop "
    "Parallel Vectorize Bind Unroll CacheRead CacheWrite ReindexCacheRead ReindexCacheWrite CacheInplace CacheIndex "
    "ReadAt WriteAt "
    "ReIndex ComputeAt ReverseComputeAt ComputeInline ReverseComputeInline DecomposeReduction RFactor StorageAlign "
    "SetScope UnsafeSetDType Blockize Tensorize Annotate Unannotate TransformLayout TransformBlockLayout "
    "SetAxisSeparator DecomposePadding PadEinsum RollingBuffer EnterPostproc UnsafeHideBufferAccess AnnotateBufferAccess"
).split()
OURS = [
    "MergeAxes", "Rasterize", "DecomposeHalo", "ElideCopy", "AddVersion", "Online", "Replicate", "UnsafeShorten",
]  # fmt: skip


def test_instructions_have_the_classic_names() -> None:
    assert sorted(InstructionKind.registry) == sorted([*CLASSIC, *OURS])
    kind = InstructionKind.get("Split")
    assert kind.name == "Split" and not kind.is_pure and InstructionKind.get("GetLoops").is_pure
    with pytest.raises(ValueError, match="unknown instruction 'Spill'"):
        InstructionKind.get("Spill")
