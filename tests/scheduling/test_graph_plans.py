"""Plans of programs: layouts and packing that a plan decides, what it can be given, and files of plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.rewriting import card_of
from tilewright.scheduling import GraphPlan
from tilewright.scheduling.database import PlanWarning, append_plan
from tilewright.target import Target

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2"


def constant(*shape: int) -> relay.Constant:
    return relay.const((np.random.default_rng(sum(shape)).standard_normal(shape) * 0.1).astype("float32"))


def network() -> tuple[IRModule, np.ndarray]:
    """Convolutions (first, 3 x 3, grouped, depthwise), and attention with products of several axes."""
    x = relay.var("x", shape=(1, 3, 32, 32))
    y = relay.nn.relu(relay.nn.conv2d(x, constant(32, 3, 3, 3), padding=(1, 1)))
    y = relay.nn.relu(relay.nn.conv2d(y, constant(32, 32, 3, 3), padding=(1, 1)))
    y = relay.nn.relu(relay.nn.conv2d(y, constant(32, 8, 3, 3), padding=(1, 1), groups=4))
    y = relay.nn.relu(relay.nn.conv2d(y, constant(32, 32, 1, 1)))
    y = relay.nn.relu(relay.nn.conv2d(y, constant(32, 32, 5, 5), padding=(2, 2)))
    y = relay.nn.relu(relay.nn.conv2d(y, constant(32, 1, 3, 3), padding=(1, 1), groups=32))
    y = relay.nn.conv2d(y, constant(24, 32, 1, 1))
    y = relay.reshape(relay.nn.avg_pool2d(y, (2, 2), (2, 2)), (3, 256, 8))
    s = relay.nn.softmax(relay.nn.batch_matmul(y, y) * relay.const(np.float32(0.3)))
    z = relay.nn.batch_matmul(s, y, transpose_b=False)
    data = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")
    return IRModule.from_expr(relay.nn.dense(z, constant(9, 8))), data


def built(mod: IRModule, data: np.ndarray, plan: GraphPlan | None = None, **config: Any) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=3, config=config):
        if plan is None:
            library = relay.build(mod, TARGET)
        else:
            with plan:
                library = relay.build(mod, TARGET)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=data)
    return executor.get_output(0).numpy()  # type: ignore[no-any-return]


def test_each_choice_computes_the_same() -> None:
    """Other values of every decision, several at once: what is given is taken, and the result stays."""
    mod, data = network()
    plan = GraphPlan(TARGET)
    expected = built(mod, data, plan)
    space = plan.space()
    kinds = {name.rpartition(".")[2] for name in space}
    assert kinds == {"block", "layout", "tile", "panel", "rows", "form", "halo"}
    assert all(plan.values()[name] in choices for name, choices in space.items())
    tried = [
        {name: choices[k % len(choices)] for name, choices in space.items() if not name.endswith(".layout")}
        for k in range(max(map(len, space.values())))
    ]
    layouts = [name for name in space if name.endswith(".layout")]
    tried += [{layouts[0]: "plain"}, {layouts[3]: "plain"}, dict.fromkeys(layouts, "plain")]
    for given in tried:
        other = GraphPlan(TARGET, given)
        found = built(mod, data, other)
        # A convolution on plain layouts takes other decisions away.
        assert not other.refused and all(d.by == "given" for n, d in other.decisions.items() if n in given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=str(given))


def operators(mod: IRModule, given: dict[str, Any]) -> tuple[dict[str, int], GraphPlan]:
    with tvm.transform.PassContext(opt_level=3), GraphPlan(TARGET, given) as plan:
        return dict(list_op_freqs(relay.optimize(mod, TARGET)[0])), plan


def test_what_is_given_is_built() -> None:
    mod, _ = network()
    before, plan = operators(mod, {})
    tile = next(n for n in plan.values() if n.startswith("winograd("))
    assert plan.values()[tile] == 4 and before["nn.contrib_conv2d_winograd_NCHWc"] == 1
    assert "nn.contrib_conv2d_winograd_NCHWc" not in operators(mod, {tile: 0})[0]
    layouts = [n for n in plan.values() if n.endswith(".layout")]
    assert layouts
    plain, _ = operators(mod, dict.fromkeys(layouts, "plain"))
    assert not [op for op in plain if op.endswith("NCHWc")]


def test_blocks_for_tile_registers_are_decided() -> None:
    x, w = (relay.var(n, shape=s, dtype="bfloat16") for n, s in (("x", (1, 64, 8, 8)), ("w", (64, 64, 1, 1))))
    call = relay.nn.conv2d(x, w, out_dtype="float32")
    types = [v.type_annotation for v in (x, w)]

    def result(given: dict[str, Any]) -> tuple[str, GraphPlan]:
        target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=sapphirerapids"
        with tvm.target.Target(target), GraphPlan(target, given) as plan:
            return card_of(call).layout_rule([None, None], types).result, plan

    found, plan = result({})
    (name,) = plan.values()
    assert found == "NCHW32c" and plan.space() == {name: [32, 16]}
    assert result({name: 16})[0] == "NCHW16c"


def test_branches_are_decided() -> None:
    """Products and convolutions of the same data: each plan joins what the other leaves apart."""
    x = relay.var("x", shape=(1, 64, 8, 8))
    y = relay.reshape(x, (64, 64))
    results = [relay.nn.max_pool2d(relay.nn.conv2d(x, constant(n, 64, 1, 1)), (2, 2)) for n in (24, 32)]
    results += [relay.transpose(relay.nn.dense(y, constant(n, 64))) for n in (8, 24)]
    mod = IRModule.from_expr(relay.Function([x], relay.Tuple(results)))
    plain, plan = operators(mod, {})
    branches = {n: v for n, v in plan.values().items() if n.endswith(".branch") or n.startswith("branches(")}
    assert branches == {
        "dense(64x64x8, 32 bits).branch": "joined",
        "dense(64x64x24, 32 bits).branch": "joined",
        next(n for n in branches if n.startswith("branches(nn.conv2d(1x64x8x8, ")): "joined",
    }
    apart, _ = operators(mod, dict.fromkeys(branches, "apart"))
    assert (
        sum([n for op, n in apart.items() if "conv2d" in op])
        == sum([n for op, n in plain.items() if "conv2d" in op]) + 1
    )
    assert (
        sum([n for op, n in apart.items() if "dense" in op]) == sum([n for op, n in plain.items() if "dense" in op]) + 1
    )


def test_batch_splitting_is_decided() -> None:
    """What saves no bytes can be given, and what saves them be refused."""
    target = "llvm -mcpu=haswell -num-cores=2 -l3-cache-bytes=262144"
    x = relay.var("x", shape=(4, 8, 32, 32))
    y: relay.Expr = x
    for i in range(4):
        y = relay.nn.relu(
            relay.nn.conv2d(y, relay.const(np.full((8, 8, 3, 3), 0.01 * (i + 1), "float32")), padding=(1, 1))
        )
    mod = IRModule.from_expr(relay.Function([x], relay.nn.global_avg_pool2d(y)))

    def optimized(given: dict[str, Any]) -> tuple[int, GraphPlan]:
        with tvm.transform.PassContext(opt_level=3), GraphPlan(target, given) as plan:
            found = list_op_freqs(relay.optimize(mod, target)[0])
        return found.get("concatenate", 0), plan

    _, plan = optimized({})
    name = next(n for n in plan.values() if n.startswith("batch(4x8x32x32, "))
    choices = plan.space()[name]
    assert choices[0] == [4, 0] and plan.values()[name] in choices and {c[0] for c in choices} == {1, 2, 4}
    for value in choices:
        parts, other = optimized({name: value})
        assert parts == (0 if value[1] == 0 else 1) and not other.refused


def test_a_plan_as_json_gives_the_same_program() -> None:
    mod, _ = network()
    before, plan = operators(mod, {})
    again, other = operators(mod, GraphPlan.from_json(plan.to_json(), TARGET).given)
    assert again == before and other.values() == plan.values() and not other.unfit()
    assert {d.by for d in other.decisions.values()} == {"given"}


def test_files_of_plans(tmp_path: Path) -> None:
    """A problem's line decides; one that does not fit is refused with the reason, and the model decides."""
    mod, data = network()
    _, plan = operators(mod, {})
    tile = next(n for n in plan.values() if n.startswith("winograd("))
    problem, path = tile.removesuffix(".tile"), tmp_path / "plans.jsonl"
    append_plan(path, problem, problem, Target(TARGET).text_for_all, {"tile": 0})
    with tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(path)}):
        assert "nn.contrib_conv2d_winograd_NCHWc" not in list_op_freqs(relay.optimize(mod, TARGET)[0])
    append_plan(path, problem, problem, Target(TARGET).text_for_all, {"tile": 5})
    with pytest.warns(
        PlanWarning, match=r"the plan of the program does not fit: winograd.*tile: 5 is none of its choices"
    ):
        built(mod, data, **{"relay.plans": str(path)})


def test_a_plan_in_force_keeps_models_apart_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    mod, data = network()
    plan = GraphPlan(TARGET)
    expected = built(mod, data, plan)
    built(mod, data)
    tile = next(n for n in plan.values() if n.startswith("winograd("))
    other = GraphPlan(TARGET, {tile: 0})
    assert not np.array_equal(built(mod, data, other), expected)
    assert other.decisions[tile].by == "given"
