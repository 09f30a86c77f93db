"""Plans: what is decided about kernels, what can be given, and files of plans."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te, topi
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.relay.functor import post_order
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.cpu import rows
from tilewright.scheduling.database import PlanDatabase, PlanWarning, append_plan
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.target.core import Core, core, numbers_of
from tilewright.tir import PrimFunc
from tilewright.topi import nn
from tilewright.topi.loops import loop_kind

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2"
Arrays = list[np.ndarray]


def product() -> tuple[Any, Arrays, np.ndarray]:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((1, 7, 12), np.float32), rng.standard_normal((1, 12, 19), np.float32)
    return lambda x, y: nn.batch_matmul(x, y, transpose_b=False), [a, b], a @ b


def packed() -> tuple[Any, Arrays, np.ndarray]:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((9, 8), np.float32), rng.standard_normal((2, 8, 16), np.float32)
    return nn.dense_pack, [a, b], a @ b.transpose(1, 0, 2).reshape(8, 32)


def pooling() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(3).standard_normal((1, 2, 6, 6, 8), np.float32)
    expected = x.reshape(1, 2, 3, 2, 3, 2, 8).max((3, 5))

    def compute(data: Any) -> Any:
        return nn.pool2d(data, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max", layout="NCHW8c")

    return compute, [x], expected


def columns() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(4).standard_normal((6, 40), np.float32)
    return lambda data: tvm.topi.exp(tvm.topi.sum(data, axis=0)), [x], np.exp(x.sum(0))


def softmax() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(5).standard_normal((3, 100), np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    return nn.softmax, [x], e / e.sum(1, keepdims=True)


def whole() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(6).standard_normal((1, 1 << 15), np.float32)
    return lambda data: tvm.topi.sum(data, axis=1), [x], x.sum(1)


def ordered() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(7).standard_normal((3, 9), np.float32)
    return lambda data: tvm.topi.cumsum(data, axis=1), [x], x.cumsum(1)


def wide_pooling() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(8).standard_normal((1, 2, 9, 9), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), (2, 3))[:, :, ::2, ::2]
    return lambda data: nn.pool2d(data, [5, 5], [2, 2], [1, 1], [0, 0, 0, 0], "max"), [x], windows.max((4, 5))


def first_of_many() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(12).permuted(np.arange(3 * 40, dtype=np.float32).reshape(3, 40), axis=1)
    return lambda data: tvm.topi.topk(data, 5, 1, "values"), [x], -np.sort(-x, 1)[:, :5]


def sorted_lines() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(13).integers(-9, 9, (2, 21)).astype(np.float32)
    return lambda data: tvm.topi.sort(data, 1), [x], np.sort(x, 1)


def several_axes() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(14).standard_normal((2, 3, 5, 7), np.float32)
    return lambda data: tvm.topi.max(data, axis=[2, 3]), [x], x.max((2, 3))


def turned() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(15).standard_normal((2, 12, 9), np.float32)
    return lambda data: tvm.topi.transpose(data, (0, 2, 1)), [x], x.transpose(0, 2, 1)


def joined() -> tuple[Any, Arrays, np.ndarray]:
    rng = np.random.default_rng(16)
    a, b = rng.standard_normal((3, 19), np.float32), rng.standard_normal((3, 24), np.float32)
    return lambda x, y: tvm.topi.concatenate([x, y], 1), [a, b], np.concatenate([a, b], 1)


def padded_pixels() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(17).standard_normal((1, 2, 4, 6, 4), np.float32)
    around = (0, 0, 1, 1, 0)
    return lambda data: nn.pad(data, around, around), [x], np.pad(x, [(n, n) for n in around])


def padded_pooling() -> tuple[Any, Arrays, np.ndarray]:
    x = np.random.default_rng(18).standard_normal((1, 1, 6, 6, 8), np.float32)
    filled = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(filled, (3, 3), (2, 3))[:, :, ::2, ::2]

    def compute(data: Any) -> Any:
        return nn.pool2d(data, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max", layout="NCHW8c")

    return compute, [x], windows.max((5, 6))


def attention() -> tuple[Any, Arrays, np.ndarray]:
    rng = np.random.default_rng(9)
    query, key, value = (rng.standard_normal((2, n, 4), np.float32) for n in (7, 21, 21))
    e = np.exp(query @ key.transpose(0, 2, 1))
    return nn.attention, [query, key, value], e / e.sum(-1, keepdims=True) @ value


def transposed() -> tuple[Any, Arrays, np.ndarray]:
    rng = np.random.default_rng(10)
    x, w = rng.standard_normal((1, 2, 3, 5), np.float32), rng.standard_normal((2, 3, 2, 2), np.float32)
    expected = np.einsum("nchw,cokl->nohkwl", x, w).reshape(1, 3, 6, 10)

    def compute(data: Any, weight: Any) -> Any:
        return nn.conv2d_transpose_nchw(data, weight, [2, 2], [0, 0, 0, 0], "float32", [0, 0])

    return compute, [x, w], expected


def depthwise() -> tuple[Any, Arrays, np.ndarray]:
    rng = np.random.default_rng(11)
    x, w = rng.standard_normal((1, 8, 6, 6), np.float32), rng.standard_normal((8, 1, 3, 3), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    expected = np.einsum("nchwkl,ckl->nchw", windows, w[:, 0])
    return lambda data, weight: nn.depthwise_conv2d_nchw(data, weight, 1, 1, 1), [x, w], expected


CASES = {
    "product": product,
    "packed": packed,
    "pooling": pooling,
    "columns": columns,
    "softmax": softmax,
    "whole": whole,
    "ordered": ordered,
    "wide pooling": wide_pooling,
    "first of many": first_of_many,
    "sorted lines": sorted_lines,
    "several axes": several_axes,
    "turned": turned,
    "joined": joined,
    "padded pixels": padded_pixels,
    "padded pooling": padded_pooling,
    "attention": attention,
    "transposed": transposed,
    "depthwise": depthwise,
}


def made(case: str, plan: KernelPlan) -> tuple[PrimFunc, Arrays, np.ndarray]:
    compute, arrays, expected = CASES[case]()
    with plan:
        tensors = [te.placeholder(a.shape, str(a.dtype), name=f"p{i}") for i, a in enumerate(arrays)]
        results = compute(*tensors)
        func = te.create_prim_func([*tensors, *(results if isinstance(results, list) else [results])])
    return schedule_kernel(func, plan.target, plan), arrays, expected


@pytest.mark.parametrize("case", CASES)
def test_each_choice_computes_the_same(case: str) -> None:
    """Other values of every decision, one at a time and several at once: what is given is taken, and the result stays."""
    plan = KernelPlan(TARGET)
    made(case, plan)
    space, rng = plan.space(), np.random.default_rng(5)
    assert space and all(plan.values()[name] in choices for name, choices in space.items())
    tried = [{name: choices[i]} for name, choices in space.items() for i in {0, len(choices) // 2, len(choices) - 1}]
    tried += [{name: choices[int(rng.integers(len(choices)))] for name, choices in space.items()} for _ in range(4)]
    for given in tried:
        other = KernelPlan(TARGET, given)
        func, arrays, expected = made(case, other)
        # A decision may take away another one, or the choices of one.
        if len(given) == 1:
            assert not other.unfit(), given
            assert other.decisions[next(iter(given))].by == "given"
        result = np.zeros(expected.shape, np.float32)
        interp.run(func, [*arrays, result])
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4, err_msg=str(given))


@pytest.mark.parametrize("rows", [3, 8, 9, 17])
def test_each_choice_of_dynamic_products_computes_the_same(rows: int) -> None:
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal((1, rows, 5), np.float32), rng.standard_normal((1, 11, 5), np.float32)]

    def scheduled(plan: KernelPlan) -> PrimFunc:
        n = te.var("n")
        a, b = te.placeholder((1, n, 5), name="a"), te.placeholder((1, 11, 5), name="b")
        with plan:
            func = te.create_prim_func([a, b, nn.batch_matmul(a, b)])
        return schedule_kernel(func, plan.target, plan)

    plan = KernelPlan(TARGET)
    scheduled(plan)
    space, names = plan.space(), ("dynamic.rows", "dynamic.panel", "dynamic.versions")
    for given in [{name: choice} for name in names for choice in space[name]]:
        other = KernelPlan(TARGET, given)
        result = np.zeros((1, rows, 11), np.float32)
        interp.run(scheduled(other), [*arrays, result])
        np.testing.assert_allclose(
            result, arrays[0] @ arrays[1].transpose(0, 2, 1), rtol=1e-4, atol=1e-4, err_msg=str(given)
        )
        assert not other.unfit()


def test_rows_decide() -> None:
    """Lanes and vectors of each stage, and the parts of a sum that threads share; what is given changes the kernel."""
    plans = {case: KernelPlan(TARGET) for case in ("softmax", "whole")}
    plain = {case: made(case, plan)[0] for case, plan in plans.items()}
    assert plans["softmax"].values() == {
        "T_softmax_norm.group": 1,
        "T_softmax_maxelem.lanes": 16,
        "T_softmax_expsum.lanes": 16,
        "T_softmax_expsum.place": "shared",
        "T_softmax_exp.place": "shared",
        "T_softmax_maxelem.place": "shared",
        "T_softmax_maxelem.fold": "unrolled",
        "T_softmax_expsum.fold": "unrolled",
        "T_softmax_maxelem_rf.steps": "loop",
        "T_softmax_exp.prefetch": "no",
        "T_softmax_maxelem_rf_1.steps": "unrolled",
        "T_softmax_maxelem_rf_2.steps": "unrolled",
        "T_softmax_expsum_rf.steps": "loop",
        "T_softmax_expsum_rf_1.steps": "unrolled",
        "T_softmax_expsum_rf_2.steps": "unrolled",
        "T_softmax_exp.vector": 8,
        "T_softmax_norm.vector": 8,
        "T_softmax_norm.pieces": 1,
        "reduction.extent": 112,
        "reduction_1.extent": 112,
    }
    assert plans["whole"].values() == {
        "T_sum.parts": 1, "T_sum.lanes": 32, "T_sum.fold": "unrolled", "T_sum_rf.steps": "unrolled", "T_sum_rf_1.steps": "unrolled",
    }  # fmt: skip
    for case, given in (
        ("softmax", {"T_softmax_maxelem.lanes": 8}),
        ("softmax", {"T_softmax_maxelem.place": "own"}),
        ("softmax", {"T_softmax_expsum.fold": "loop"}),
        ("softmax", {"T_softmax_expsum_rf.steps": "unrolled"}),
        ("softmax", {"T_softmax_norm.pieces": 3}),
        ("softmax", {"reduction.extent": 100}),
        ("whole", {"T_sum.parts": 8}),
    ):
        func, *_ = made(case, KernelPlan(TARGET, given))
        assert not tvm.ir.structural_equal(func, plain[case])


def test_vectors_along_keys_of_attention_are_whole() -> None:
    """Its stages are computed block by block, which no masked vector can be."""
    plan = KernelPlan(TARGET)
    made("attention", plan)
    choices = plan.space()["attention_total.lanes"]
    assert choices == [0, 4, 8, 12, 24]
    for lanes in choices:
        func, arrays, expected = made("attention", KernelPlan(TARGET, {"attention_total.lanes": lanes}))
        result = np.zeros(expected.shape, np.float32)
        interp.run(func, [*arrays, result])
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_loops_of_programs_decide() -> None:
    """Whether threads share a loop that no rule schedules: from so many elements on."""
    plan = KernelPlan(TARGET)
    made("ordered", plan)
    assert plan.values() == {"loop.kind": "serial"} and plan.space() == {"loop.kind": ["parallel", "serial"]}
    func, *_ = made("ordered", KernelPlan(TARGET, {"loop.kind": "parallel"}))
    kinds: list[Any] = []
    tvm.tir.stmt_functor.post_order_visit(
        func.body, lambda s: kinds.append(s.kind) if isinstance(s, tvm.tir.For) else None
    )
    assert tvm.tir.ForKind.PARALLEL in kinds


def test_pieces_of_parallel_loops_decide() -> None:
    """How many iterations threads share; 1 starts none, and what no cut gives is refused."""

    def extents(given: dict[str, Any]) -> tuple[list[int], KernelPlan]:
        plan, x = KernelPlan(TARGET, given), te.placeholder((256, 4096), name="x")
        func = schedule_kernel(te.create_prim_func([x, topi.exp(x)]), plan.target, plan)
        found: list[int] = []

        def look(s: Any) -> None:
            if isinstance(s, tvm.tir.For) and s.kind == tvm.tir.ForKind.PARALLEL:
                found.append(int(s.extent))

        tvm.tir.stmt_functor.post_order_visit(func.body, look)
        return found, plan

    (model,), plan = extents({})
    (name,) = [n for n in plan.values() if n.endswith(".pieces")]
    assert plan.values()[name] == model > 1
    for pieces in plan.space()[name]:
        assert extents({name: pieces})[0] == ([pieces] if pieces > 1 else [])
    found, plan = extents({name: 255})
    assert found == [model] and plan.unfit()[name].startswith("255 is none of its choices (1, ")


def test_few_elements_are_no_work_for_threads_without_a_plan() -> None:
    assert (loop_kind(3, 9), loop_kind(1 << 10, 1 << 5)) == ("serial", "parallel")


@pytest.mark.parametrize("case", CASES)
def test_as_json_and_again(case: str) -> None:
    """What is written down answers every decision."""
    plan = KernelPlan(TARGET)
    first, *_ = made(case, plan)
    again = KernelPlan.from_json(plan.to_json(), TARGET)
    second, *_ = made(case, again)
    assert tvm.ir.structural_equal(first, second)
    assert not again.unfit() and {d.by for d in again.decisions.values()} == {"given"}


def test_a_kernel_may_be_scheduled_more_than_once() -> None:
    plan = KernelPlan(TARGET)
    made("product", plan)
    values = plan.values()
    compute, arrays, _ = CASES["product"]()
    with plan.again():
        tensors = [te.placeholder(a.shape) for a in arrays]
        func = te.create_prim_func([*tensors, compute(*tensors)])
    schedule_kernel(func, plan.target, plan)
    assert plan.values() == values


def test_what_does_not_fit() -> None:
    """It is refused with the reason, and the model decides."""
    plan = KernelPlan(
        TARGET, {"T_batch_matmul_NN.form": "diagonal", "T_batch_matmul_NN.tile": [99, 9], "other.tile": 3}
    )
    func, *_ = made("product", plan)
    expected, *_ = made("product", KernelPlan(TARGET))
    assert tvm.ir.structural_equal(func, expected)
    unfit = plan.unfit()
    assert unfit["T_batch_matmul_NN.form"] == '"diagonal" is none of its choices ("columns", "panels", "dots")'
    assert unfit["T_batch_matmul_NN.tile"].startswith("[99, 9] is none of its choices ([1, 1], [1, 2], [1, 3], ")
    assert unfit["other.tile"] == "there is no such decision"


def test_a_value_with_which_a_step_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model decides about the schedule; what computes took stays."""
    monkeypatch.setattr(rows, "widths_of_row", lambda extent, lanes, model, masked: [16, model])
    whole = KernelPlan(TARGET)
    made("attention", whole)
    given = {"attention_sums.rows": whole.space()["attention_sums.rows"][0]}
    plan = KernelPlan(TARGET, {**given, "attention_total.lanes": 16})
    func, *_ = made("attention", plan)
    reason = r"a step of the schedule is refused with what is given \(compute_at: the predicate .*\)"
    unfit = plan.unfit()
    assert unfit.keys() == {"attention_total.lanes"} and re.fullmatch(reason, unfit["attention_total.lanes"])
    assert tvm.ir.structural_equal(func, made("attention", KernelPlan(TARGET, given))[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "a plan is a JSON object of decisions by name, but this is a list"),
        ("{", "a plan is a JSON object of decisions by name, but this is no JSON ("),
    ],
)
def test_texts_that_are_no_plan(text: str, message: str) -> None:
    with pytest.raises(TVMError) as error:
        KernelPlan.from_json(text, TARGET)
    assert str(error.value).startswith(message)


def test_computes_know_no_machine_without_a_plan() -> None:
    compute, arrays, _ = CASES["product"]()
    tensors = [te.placeholder(a.shape) for a in arrays]
    with Target(TARGET):
        func = te.create_prim_func([*tensors, compute(*tensors)])
    plain = te.create_prim_func([*tensors, compute(*tensors)])
    assert tvm.ir.structural_equal(func, plain)
    blocks: list[str] = []
    tvm.tir.stmt_functor.post_order_visit(
        plain.body, lambda s: blocks.append(s.name_hint) if isinstance(s, tvm.tir.Block) else None
    )
    assert blocks == ["T_batch_matmul_NN", "root"]


def test_a_build_takes_plans_of_a_file(tmp_path: Path) -> None:
    target = Target("llvm")
    a, b = relay.var("a", shape=(1, 24, 24)), relay.var("b", shape=(1, 24, 24))
    mod = tvm.IRModule.from_expr(relay.Function([a, b], relay.nn.batch_matmul(a, b, transpose_b=False)))
    with target, tvm.transform.PassContext(opt_level=3):
        optimized, _ = relay.optimize(mod, target)
        (func,) = [e for e in post_order(optimized["main"].body) if isinstance(e, relay.Function)]
        kernel = TECompiler(target).kernel(func)
    path = tmp_path / "plans.jsonl"
    append_plan(
        path, kernel.digest.hex(), kernel.name, target.text_for_all, {"T_batch_matmul_NN.form": "dots", "x.y": 1}
    )
    x, y = np.random.default_rng(7).standard_normal((2, 1, 24, 24), np.float32)
    texts = []
    for config in ({}, {"relay.plans": str(path)}):
        with (
            tvm.transform.PassContext(opt_level=3, config=config),
            pytest.warns(PlanWarning) if config else _quiet() as said,
        ):
            library = relay.build(mod, target)
        texts.append(library.texts.all("te"))
        model = graph_executor.GraphModule(library["default"](tvm.cpu()))
        model.run(a=x, b=y)
        np.testing.assert_allclose(model.get_output(0).numpy(), x @ y, rtol=1e-4, atol=1e-4)
    assert [str(w.message) for w in said] == [f"the plan of {kernel.name} does not fit: x.y: there is no such decision"]
    assert "T_fold" in texts[1] and "T_fold" not in texts[0]


class _quiet:
    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def test_files_of_plans(tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    append_plan(path, "ab", "f", "llvm", {"f.tile": [4, 2]})
    append_plan(path, "ab", "f", "llvm", {"f.tile": [6, 2]})
    with path.open("a") as file:
        file.write(
            '{"version": "0.0.1", "kernel": "cd", "name": "g", "target": "llvm", "plan": {}}\n[1]\n{"version": "0.1'
        )
    append_plan(path, "ef", "h", "llvm", {"h.unroll": 2})
    with pytest.warns(PlanWarning) as said:
        found = PlanDatabase(path)
    assert found.find("ab", "llvm") == {"f.tile": [6, 2]} and found.find("ef", "llvm") == {"h.unroll": 2}
    assert found.find("ab", "llvm -mcpu=znver4") == {} and found.find("cd", "llvm") == {}
    messages = [str(w.message) for w in said]
    assert messages[0].startswith(f"{path}:3 is left out: it was written by version 0.0.1, and this is ")
    assert messages[1] == f"{path}:4 is left out: it is a list, not an object"
    assert messages[2].startswith(f"{path}:5 is left out: it is no JSON (")
    with pytest.raises(TVMError, match="cannot be read"):
        PlanDatabase(tmp_path / "missing")
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()[:2]] == ["f", "f"]


def test_descriptions_of_cores() -> None:
    """Every family has all numbers; processors find theirs."""
    folder = Path(tvm.target.__file__).parent / "cores"
    families = {p.stem for p in folder.glob("*.toml")}
    assert all(isinstance(core(family, 32), Core) for family in families)
    for family in families:
        # What a relative states is not stated again.
        own = numbers_of(family)
        relative = core(own.pop("relative"), 32)._asdict() if "relative" in own else {}
        assert all(relative.get(name) != value for name, value in own.items()), family
    found = {
        "avx2": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
        "avx512_amd": "llvm -mtriple=x86_64-linux-gnu -mcpu=znver5",
        "avx512_intel": "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids",
        "neon": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
        "sve": "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1",
        "portable": "llvm -mtriple=riscv64-linux-gnu",
        "wasm": "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128",
    }
    assert found.keys() == families
    assert {name: Target(text).cpu.core.family for name, text in found.items()} == {name: name for name in found}
