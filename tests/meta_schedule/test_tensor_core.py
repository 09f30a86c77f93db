"""Products for matrix units: design spaces whose programs compute what the kernel does, as they stand and lowered with barriers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.kernels import gemm as plain_gemm
from tests.meta_schedule.kernels import inputs_of
from tests.slow import all_but
from tests.tir_schedule.random_programs.programs import run_program
from tilewright import meta_schedule as ms
from tilewright import te, tir
from tilewright.codegen.interp import InterpError, run
from tilewright.driver import lower
from tilewright.driver.pipeline import device_pipeline
from tilewright.meta_schedule import schedule_rule as R
from tilewright.meta_schedule.blocks import note
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.node import nodes_of
from tilewright.scheduling.gpu.matrix_form import product_of
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import transform as T
from tilewright.tir.schedule import Schedule, TensorIntrin
from tilewright.tir.tensor_intrin import cuda

CUDA = "cuda -arch=sm_80"


def product(
    m: int = 32,
    n: int = 32,
    k: int = 32,
    dtype: str = "float16",
    sums: str = "float32",
    relu: bool = False,
    batch: int = 0,
) -> tir.PrimFunc:
    lead = (batch,) if batch else ()
    a, b = te.placeholder((*lead, m, k), dtype, name="A"), te.placeholder((*lead, k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def term(*at: Any) -> Any:
        *q, i, j = at
        return te.sum(a[(*q, i, r)].astype(sums) * b[(*q, r, j)].astype(sums), axis=r)

    c = te.compute((*lead, m, n), term, name="C")
    if relu:
        c = te.compute((*lead, m, n), lambda *at: te.max(c[at], tir.const(0, sums)), name="D")
    return te.create_prim_func([a, b, c])


def convolution() -> tir.PrimFunc:
    """NHWC; 16 places and 16 channels, sums over 3 x 3 x 16."""
    x, w = te.placeholder((1, 6, 6, 16), "float16", name="X"), te.placeholder((3, 3, 16, 16), "float16", name="W")
    rh, rw, rc = [te.reduce_axis((0, n), name=name) for n, name in ((3, "rh"), (3, "rw"), (16, "rc"))]

    def term(n: Any, h: Any, v: Any, o: Any) -> Any:
        return te.sum(
            x[n, h + rh, v + rw, rc].astype("float32") * w[rh, rw, rc, o].astype("float32"), axis=[rh, rw, rc]
        )

    return te.create_prim_func([x, w, te.compute((1, 4, 4, 16), term, name="Y")])


def rule(
    dtype: str = "float16", sums: str = "float32", trans_b: bool = False, **given: Any
) -> R.MultiLevelTilingTensorCore:
    group = cuda.get_wmma_intrin_group("shared.dyn", "shared.dyn", dtype, sums, trans_b)
    parts: dict[str, Any] = {
        "structure": "SSSRRSRS",
        "tile_binds": ["blockIdx.y", "blockIdx.x", "threadIdx.y"],
        "max_innermost_factor": 4,
        "vector_load_lens": [1, 2, 4],
        "reuse_read": R.ReuseType("must", [4], "shared.dyn"),
        "reuse_write": R.ReuseType("must", [2], "shared.dyn"),
    }
    return R.MultiLevelTilingTensorCore(group, **{**parts, **given})


def space_of(func: tir.PrimFunc, tensor_core: R.ScheduleRule) -> TraceSpace:
    rules = [tensor_core, R.AutoInline(True, True, True, False, False, False, [])]
    generator = ms.space_generator.PostOrderApply(sch_rules=rules, postprocs="cuda-tensorcore", mutator_probs={})
    return TraceSpace(ms.TuneContext(func, target=CUDA, space_generator=generator, rand_state=1))


def with_barriers(mod: Any) -> Any:
    with Target(CUDA):
        lowered = lower(mod)
    for scope in ("shared", "shared.dyn", "warp"):
        lowered = T.ThreadSync(scope)(lowered)
    return lowered["main"]


def for_devices(mod: Any) -> Any:
    """Kernels and host functions that call them; parts of dynamic shared memory are one array of bytes."""
    with Target(CUDA):
        return device_pipeline(Target(CUDA, host="llvm"))(lower(mod))


def check(func: tir.PrimFunc, tensor_core: R.ScheduleRule, draws: int = 2) -> Schedule:
    """A schedule that computes what the kernel does, as all draws that post-processors accept."""
    space, random, inputs = space_of(func, tensor_core), Random(0), inputs_of(func)
    (want,) = run_program(func, inputs)
    found = []
    for _ in range(draws):
        try:
            found.append(space.schedule(space.draw(random)))
        except TVMError:
            continue
        text = found[-1].mod.script()
        assert all(
            [call in text for call in ("tvm_fill_fragment", "tvm_load_matrix", "tvm_mma_sync", "tvm_store_matrix")]
        )
        assert "auto_tensorize" not in text and "cooperative_fetch" not in text
        np.testing.assert_array_equal(run_program(found[-1].mod, inputs)[0], want)
        arrays = [inputs[b.name] if b.name in inputs else np.zeros_like(want) for b in func.buffer_map.values()]
        run(with_barriers(found[-1].mod), arrays, check_races=True)
        np.testing.assert_array_equal(arrays[-1], want)
        arrays[-1][:] = 0
        run(for_devices(found[-1].mod), arrays, entry="main", check_races=True)
        np.testing.assert_array_equal(arrays[-1], want)
    return found[-1]


PRODUCTS: dict[str, tuple[Callable[[], tir.PrimFunc], Callable[[], R.ScheduleRule]]] = {
    "plain": (product, rule),
    "by_columns": (product, lambda: rule(trans_b=True)),
    "relu": (lambda: product(relu=True), rule),
    "half": (lambda: product(sums="float16"), lambda: rule(sums="float16")),
    "bytes": (lambda: product(dtype="int8", sums="int32"), lambda: rule("int8", "int32")),
    "batch": (lambda: product(16, 16, 32, batch=2), rule),
    "convolution": (convolution, rule),
    "padded": (lambda: product(30, 16, 24), rule),
    "ahead": (lambda: product(k=128), lambda: rule(use_software_pipeline=True)),
}


@pytest.mark.parametrize("name", all_but(("padded", "convolution"), PRODUCTS))
def test_products(name: str) -> None:
    func, tensor_core = PRODUCTS[name]
    sch = check(func(), tensor_core())
    loops = [loop for loop in nodes_of(sch.mod["main"].body, tir.For) if loop.thread_binding is not None]
    lanes = {int(x.extent) for x in loops if str(x.thread_binding.thread_tag) == "threadIdx.x"}  # type: ignore[union-attr,call-overload]
    assert lanes == {32}


def test_what_is_left_alone() -> None:
    def designs(func: tir.PrimFunc, tensor_core: R.ScheduleRule) -> list[bool]:
        made = space_of(func, tensor_core).designs
        return [any([i.kind.method == "blockize" for i in design.insts]) for design in made]

    assert designs(product(), rule()) == [True]
    # Other types; what is no product.
    assert designs(product(), rule(sums="float16")) == [False]
    assert designs(plain_gemm(16, 16, 16), rule()) == [False]
    both = [cuda.get_wmma_intrin_group("shared", "global", "float16", "float32", t) for t in (False, True)]
    assert R.MultiLevelTilingTensorCore(both, "SSSRRSRS", None, 4, None, *rule_reuses()).intrin_groups == both
    with pytest.raises(ValueError, match="a group of intrinsics has the names init, load_a, load_b, compute, store"):
        R.MultiLevelTilingTensorCore({"init": "wmma_fill_16x16x16_f32"}, "SSSRRSRS", None, 4, None, *rule_reuses())
    with pytest.raises(ValueError, match='reuse_read and reuse_write must be "must"'):
        R.MultiLevelTilingTensorCore(both, "SSSRRSRS")
    with pytest.raises(ValueError, match="there is no product of int8 with sums of float32"):
        cuda.get_wmma_intrin_group("shared", "shared", "int8", "float32", False)
    with pytest.raises(ValueError, match="fragments are loaded from shared memory"):
        cuda.get_wmma_intrin_group("global", "shared", "int8", "int32", False)


def rule_reuses() -> tuple[R.ReuseType, R.ReuseType]:
    return R.ReuseType("must", [4], "shared"), R.ReuseType("must", [2], "shared")


def test_which_blocks_are_products() -> None:
    def of(func: tir.PrimFunc) -> Any:
        return product_of(next(b for b in nodes_of(func.body, tir.Block) if b.init is not None))

    assert of(product())[:4] == ((), (0,), (1,), (2,)) and of(product(batch=2))[:4] == ((0,), (1,), (2,), (3,))
    assert of(convolution())[:4] == ((), (0, 1, 2), (3,), (4, 5, 6))
    a, r = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), name="k")
    assert of(te.create_prim_func([a, te.compute((8, 8), lambda i, j: te.sum(a[i, r] * a[r, j], axis=r))])) is None
    assert of(te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[i, r], axis=r))])) is None


def test_defaults() -> None:
    def kinds(target: str) -> list[str]:
        context = ms.TuneContext(product(), target=target, space_generator="post-order-apply")
        assert context.space_generator is not None
        return [type(p).__name__ for p in (*context.space_generator.sch_rules, *context.space_generator.postprocs)]

    assert {"MultiLevelTilingTensorCore", "RewriteTensorize"} <= set(kinds(CUDA))
    assert not {"MultiLevelTilingTensorCore", "RewriteTensorize"} & set(kinds("cuda -arch=sm_61"))
    assert sum(ms.Mutator.create("cuda-tensorcore").values()) == pytest.approx(1)
    context = ms.TuneContext(product(), target=CUDA, space_generator="post-order-apply", rand_state=1)
    designs = context.generate_design_space()
    names = [note(s.get(s.get_block("C_o")), "meta_schedule.auto_tensorize") for s in designs]
    assert names == ["wmma_sync_16x16x16_f16f16f32", "wmma_sync_16x16x16_f16f16f32_trans"]


def test_names_of_intrinsics() -> None:
    assert cuda.NAMES["WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN"] == "wmma_load_16x16x16_f16_b_trans_shared_dyn"
    assert len(cuda.INTRINSICS.constants) == 43
    assert all([getattr(cuda, constant) == name for constant, name in cuda.NAMES.items()])
    for name in cuda.NAMES.values():
        found = TensorIntrin.get(name)
        assert found is not None and len(found.desc.params) == len(found.impl.params)
    assert cuda.INTRINSICS.get("wmma_load_4x4") is None


def fragments(lanes: int, fill: bool = True, stride: int = 16) -> Any:
    """A lowered kernel whose warps double a 16 x 16 matrix."""
    a, b = tir.decl_buffer((256,), "float16", "A"), tir.decl_buffer((256,), "float16", "B")
    kinds = ("matrix_a", "matrix_b", "accumulator")
    left, right, sums = [tir.decl_buffer((256,), "float16", kind, scope=f"wmma.{kind}") for kind in kinds]

    def load(to: Any, source: Any) -> Any:
        pointer = source.access_ptr("r")
        return tir.Evaluate(tir.tvm_load_matrix_sync(to.data, 16, 16, 16, 0, pointer, stride, "row_major"))

    steps = [load(left, a), load(right, b)]
    steps += [tir.Evaluate(tir.tvm_fill_fragment(sums.data, 16, 16, 16, 0, tir.const(0.0, "float32")))] if fill else []
    parts = [(sums, 0), (left, 0), (right, 0), (sums, 0)]
    steps.append(tir.Evaluate(tir.tvm_mma_sync(*[x for part, at in parts for x in (part.data, at)])))
    c = tir.decl_buffer((256,), "float16", "C")
    steps.append(tir.Evaluate(tir.tvm_store_matrix_sync(sums.data, 16, 16, 16, 0, c.access_ptr("w"), 16, "row_major")))
    body: Any = tir.stmt_seq(*steps)
    for part in (left, right, sums):
        body = tir.Allocate(part.data, part.dtype, (tir.IntImm("int32", 256),), tir.const(True, "bool"), body)
    axis = tir.IterVar(None, tir.Var("tx", "int32"), 1, "threadIdx.x")
    return tir.PrimFunc([a, b, c], tir.AttrStmt(axis, "thread_extent", lanes, body))


def test_fragments_belong_to_warps() -> None:
    arrays = [
        np.eye(16, dtype="float16").reshape(-1) * 2,
        np.arange(256, dtype="float16") / 8,
        np.zeros(256, "float16"),
    ]
    run(fragments(64), arrays)
    np.testing.assert_array_equal(arrays[2], arrays[1] * 2)
    for func, message in (
        (fragments(16), "takes whole warps, so the extent of threadIdx.x must be a multiple of 32"),
        (fragments(32, fill=False), "uninitialised read: no fragment of accumulator was loaded or filled"),
        (fragments(32, stride=8), "rows of 16 elements of A cannot be 8 elements apart"),
        (fragments(32, stride=17), "a matrix of elements 0 to 270 is outside of A, which has 256"),
    ):
        with pytest.raises(InterpError, match=message):
            run(func, arrays)
