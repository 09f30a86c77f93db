"""Each property that a pass promises is verified: a program without it is refused, and what the pass makes has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tir_transform.test_pass_list import made, passes
from tests.tir_transform.thread.test_threads import allocate, axis, module, shared
from tilewright import tir
from tilewright.ir import Range
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.analysis import verify_stage
from tilewright.tir.analysis.stages import RULES

A, B = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8, 8), name="B")
I, TRUE = tir.Var("i", "int32"), tir.const(True, "bool")
NOTHING = tir.Evaluate(0)
STORE = tir.BufferStore(A, 1.0, [0])


def block(**options: Any) -> Any:
    return tir.BlockRealize([], TRUE, tir.Block([], [], [], "b", STORE, **options))


def loop(kind: int, thread: Any = None, **notes: Any) -> Any:
    return tir.For(I, 0, 8, kind, tir.BufferStore(A, 1.0, [I]), thread, notes)


def note(key: str, node: Any = None) -> Any:
    return tir.AttrStmt(node, key, 1, STORE)


def call(name: str, *args: Any) -> Any:
    return tir.Evaluate(tir.call_intrin("int32", f"tir.{name}", *args))


def storage(scope: str, dtype: str = "float32") -> Any:
    return allocate(shared("S", 8, dtype, scope), STORE)


CULPRITS: dict[str, Any] = {
    "no_init": block(init=STORE),
    "opaque_blocks": tir.BlockRealize([0], TRUE, tir.Block([tir.IterVar((0, 8), "v", 0)], [], [], "b", STORE)),
    "no_match_buffers": block(
        match_buffers=[tir.MatchBufferRegion(tir.decl_buffer((8,)), tir.BufferRegion(A, [Range(0, 8)]))]
    ),
    "no_blocks": block(),
    "no_thread_loops": loop(tir.ForKind.THREAD_BINDING, axis("threadIdx.x", 8)),
    "no_pipelines": loop(tir.ForKind.SERIAL, software_pipeline_stage=[0]),
    "flat_buffers": tir.BufferStore(B, 1.0, [0, 0]),
    "no_realizes": tir.BufferRealize(A, [Range(0, 8)], TRUE, STORE),
    "vectors_lowered": loop(tir.ForKind.VECTORIZED),
    "no_parallel_loops": loop(tir.ForKind.PARALLEL),
    "no_unrolled_loops": loop(tir.ForKind.UNROLLED),
    "no_virtual_threads": note("virtual_thread", axis("vthread", 1)),
    "no_double_buffers": note("double_buffer_scope", A.data),
    "no_prefetch_scopes": note("prefetch_scope", A),
    "no_rolling_buffers": note("rolling_buffer_scope", A),
    "no_async_scopes": note("async_scope"),
    "no_device_regions": note("target", Target("cuda")),
    "no_asserts": tir.AssertStmt(TRUE, "text", STORE),
    "no_allreduce": call("tvm_thread_allreduce"),
    "no_undef": call("undef"),
    "no_assume": call("assume", TRUE),
    "no_hints": call("likely", TRUE),
    "no_access_pointers": tir.Evaluate(A.access_ptr("r")),
    "no_packed_calls": call("tvm_call_packed", "f"),
    "no_warp_memory": storage("warp"),
    "no_vtcm": storage("global.vtcm"),
    "no_bfloat16": storage("global", "bfloat16"),
    "no_float8": storage("global", "float8_e5m2"),
    "no_custom_types": storage("global", "custom[mine]8"),
    "no_int64": tir.Evaluate(tir.Var("n", "int64")),
}


@pytest.mark.parametrize("rule", [*RULES])
def test_culprits_are_refused(rule: str) -> None:
    mod = module(CULPRITS[rule], A, B)
    assert verify_stage(mod, [])
    with pytest.raises(TVMError, match=f"main: after the passes so far \\({rule}\\) there must be no "):
        verify_stage(mod, [rule])
    plain = module(STORE, A)
    assert verify_stage(plain, RULES)


def test_variables_bound_twice_are_refused() -> None:
    mod = module(tir.stmt_seq(loop(0), loop(0)), A)
    with pytest.raises(TVMError, match=r"\(ssa\) every variable is bound once"):
        verify_stage(mod, ["ssa"])


def test_every_promise_is_one_that_is_verified() -> None:
    unchecked = {"allocations_placed", "compact_buffers", "packed_api", "partitioned", "unpacked_api"}
    promised = {g for name in passes() for g in made(name).info.gives}
    assert promised - unchecked <= {*RULES, "ssa"}
    assert {*RULES} - promised == {"no_unrolled_loops"}, "kept for those who write out all loops"


LOWERED = ["no_thread_loops", "no_pipelines", "no_virtual_threads", "no_double_buffers", "no_asserts", "no_undef",
           "no_assume", "no_hints", "no_access_pointers", "no_packed_calls", "no_warp_memory", "no_vtcm", "no_async_scopes",
           "no_parallel_loops", "no_bfloat16", "no_float8"]  # fmt: skip


@pytest.mark.parametrize("rule", LOWERED)
def test_passes_keep_their_promise(rule: str) -> None:
    body = CULPRITS[rule]
    if rule == "no_pipelines":
        other = tir.BufferStore(A, 2.0, [I])
        stages = {"software_pipeline_stage": [0, 0], "software_pipeline_order": [0, 1]}
        body = tir.For(I, 0, 8, 0, tir.stmt_seq(other, other), None, stages)
    if rule == "no_undef":
        body = tir.BufferStore(tir.decl_buffer((8,), "int32", "U"), tir.undef(), [0])
    if rule == "no_warp_memory":
        lane, w = axis("threadIdx.x", 32), shared("W", 32, scope="warp")
        body = tir.AttrStmt(lane, "thread_extent", 32, allocate(w, tir.BufferStore(w, 1.0, [lane.var])))
    for name in passes():
        if rule in made(name).info.gives:
            verify_stage(made(name)(module(body, A)), [rule])
