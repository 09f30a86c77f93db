"""The graph tuner: solvers against all choices of small problems, and the choice of records for a model."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.autotvm.test_model_templates import conv, weights
from tilewright import autotvm, relay
from tilewright.autotvm.graph_tuner import DPTuner, PBQPTuner
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.relay.backend.graph_tuner.elimination import solve_exactly
from tilewright.relay.backend.graph_tuner.pbqp import Pbqp, solve
from tilewright.support.errors import TVMError


def drawn(rng: np.random.Generator, count: int, share: float) -> Pbqp:
    """A problem with edges between that share of all pairs."""
    sizes = rng.integers(1, 4, count)
    problem = Pbqp([rng.random(n) for n in sizes])
    for a, b in itertools.combinations(range(count), 2):
        if rng.random() < share:
            ends = (a, b) if rng.random() < 0.5 else (b, a)
            problem.add_edge(*ends, rng.random([sizes[e] for e in ends]) * 2)
    return problem


def least(problem: Pbqp) -> float:
    choices = itertools.product(*[range(c.size) for c in problem.costs])
    return min([problem.cost(dict(enumerate(c))) for c in choices])


@pytest.mark.parametrize("seed", range(20))
def test_dynamic_programming_finds_the_least_of_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = drawn(rng, int(rng.integers(1, 8)), rng.random())
    assert problem.cost(solve_exactly(problem)) == pytest.approx(least(problem))


@pytest.mark.parametrize("seed", range(20))
def test_reductions_are_exact_on_sparse_problems(seed: int) -> None:
    """Trees, and rings with branches, need no guess."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    sizes = rng.integers(1, 4, count)
    problem = Pbqp([rng.random(n) for n in sizes])
    pairs = [(int(rng.integers(i)), i) for i in range(1, count)] + ([(0, count - 1)] if seed % 2 else [])
    for a, b in pairs:
        problem.add_edge(a, b, rng.random((sizes[a], sizes[b])) * 2)
    assert problem.cost(solve(problem)) == pytest.approx(least(problem))


def test_guesses_are_near_the_least_on_dense_problems() -> None:
    excess = []
    for seed in range(15):
        problem = drawn(np.random.default_rng(seed), 7, 0.9)
        found, best = problem.cost(solve(problem)), least(problem)
        assert found >= best - 1e-9
        excess.append(found / best)
    # Random costs without any structure are the hardest case.
    assert np.mean(excess) < 1.1


def test_a_problem_keeps_its_costs() -> None:
    problem = drawn(np.random.default_rng(3), 6, 0.5)
    before = problem.copy()
    solve(problem)
    solve_exactly(problem)
    assert all([np.array_equal(a, b) for a, b in zip(problem.costs, before.costs, strict=True)])
    assert {k: v.tolist() for k, v in problem.edges.items()} == {k: v.tolist() for k, v in before.edges.items()}


def test_messages() -> None:
    with pytest.raises(ValueError, match="the variable 1 has no choices"):
        Pbqp([[1.0], []])
    dense = drawn(np.random.default_rng(0), 8, 1.0)
    with pytest.raises(TVMError, match="use PBQPTuner, or a smaller max_sch_num"):
        solve_exactly(dense, most_states=2)


def network() -> tvm.IRModule:
    """A residual block: two branches that are added, and a convolution of the sum."""
    x = relay.var("data", shape=(1, 8, 6, 6))
    first = relay.nn.relu(conv(x, 16, 8, 3, 3, padding=(1, 1)))
    left = relay.nn.relu(conv(first, 16, 16, 3, 3, padding=(1, 1)))
    right = relay.nn.bias_add(conv(first, 16, 16, 1, 1), weights(16))
    joined = relay.nn.relu(relay.add(left, right))
    pooled = relay.nn.max_pool2d(joined, (2, 2), (2, 2))
    return tvm.IRModule.from_expr(relay.Function([x], conv(pooled, 8, 16, 1, 1)))


def records(mod: tvm.IRModule, blocks: tuple[int, ...] = (2, 4, 8)) -> list[Any]:
    """A record for each pair of blocks of each convolution, with seconds drawn at random."""
    rng = np.random.default_rng(0)
    pairs = []
    tasks = autotvm.task.extract_from_program(mod["main"], target="llvm", params={}, ops=(relay.op.get("nn.conv2d"),))
    for task in tasks:
        space, seen = task.config_space, set()
        for i in range(len(space)):
            config = space.get(i)
            key = config["tile_ic"].size[-1], config["tile_oc"].size[-1]
            if key in seen or not {*key} <= {*blocks}:
                continue
            seen.add(key)
            config.cost = float(rng.random() * 1e-5)
            pairs.append((MeasureInput(task.target, task, config), MeasureResult((config.cost,), 0, 0, 0)))
    return pairs


def one_relayout(seconds: float) -> list[Any]:
    task = autotvm.task.create("layout_transform", (("TENSOR", (1, 16, 6, 6), "float32"), "NCHW", "NCHW8c"), "llvm")
    return [(MeasureInput(task.target, task, task.config_space.get(0)), MeasureResult((seconds,), 0, 0, 0))]


@pytest.mark.parametrize("kind", [DPTuner, PBQPTuner])
def test_the_chosen_records_take_the_least_time(kind: Any, tmp_path: Path) -> None:
    mod, log = network(), str(tmp_path / "graph.log")
    every = records(mod)
    tuner = kind(mod["main"], {"data": (1, 8, 6, 6)}, every, [relay.op.get("nn.conv2d")], "llvm")
    with pytest.raises(TVMError, match="call benchmark_layout_transform before run"):
        tuner.run()
    tuner.benchmark_layout_transform(layout_records=one_relayout(1e-6), infer_layout=True)
    with pytest.raises(TVMError, match="call run first"):
        tuner.get_optimal_records()
    tuner.run()
    tuner.write_opt_sch2record_file(log)
    chosen = tuner.get_optimal_records()
    assert len(chosen) == 4 and len(tuner.layout_transform_perf_records) == 1
    problem = tuner.problem()
    picked = [next(i for i, p in enumerate(pairs) if p is c) for pairs, c in zip(tuner._records, chosen, strict=True)]
    assert problem.cost({**dict(enumerate(picked)), len(picked): 0}) == pytest.approx(least(problem))
    x = np.random.default_rng(1).standard_normal((1, 8, 6, 6), dtype="float32")

    def run(library: Any) -> Any:
        graph = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
        graph.run(data=x)
        return graph.get_output(0).numpy()

    with tvm.transform.PassContext(opt_level=3):
        want = run(relay.build(mod, "llvm"))
        with autotvm.apply_graph_best(log):
            built = relay.build(mod, "llvm")
    used = [k["name"] for k in built.metadata["kernels"] if "autotvm_template" in k["name"]]
    assert len(used) == 4
    np.testing.assert_allclose(run(built), want, rtol=1e-3, atol=1e-3)


def test_expensive_relayouts_are_avoided() -> None:
    """Where they cost more than anything else, all layouts agree, so that only the input and the result are converted."""
    mod = network()
    tuner = DPTuner(mod, {"data": (1, 8, 6, 6)}, records(mod), ["nn.conv2d"], "llvm")
    tuner.benchmark_layout_transform(layout_records=one_relayout(1.0), infer_layout=True)
    tuner.run()
    configs = [given.config for given, _ in tuner.get_optimal_records()]
    blocks = [(c["tile_ic"].size[-1], c["tile_oc"].size[-1]) for c in configs]
    assert blocks[1] == blocks[2]
    assert blocks[0][1] == blocks[1][0] and blocks[1][1] == blocks[3][0]
    with autotvm.apply_graph_best(tuner.get_optimal_records()), tvm.transform.PassContext(opt_level=3):
        optimized, _ = relay.optimize(mod, "llvm")
    assert str(optimized).count("layout_transform(") == 2


def test_relayouts_are_measured() -> None:
    mod = network()
    tuner = DPTuner(mod["main"], {"data": (1, 8, 6, 6)}, records(mod, (8,)), ["nn.conv2d"], "llvm")

    class Runner(autotvm.LocalRunner):
        def run(self, inputs: Any, built: Any) -> Any:
            assert not any([isinstance(b, MeasureResult) for b in built])
            return [MeasureResult((float(np.prod(i.task.args[0][1])),), 0, 0, 0) for i in inputs]

    tuner.benchmark_layout_transform(runner=Runner())
    shapes = {p[0].task.args[0][1] for p in tuner.layout_transform_perf_records}
    assert shapes == {(1, 8, 6, 6), (1, 1, 3, 3, 8)}
    with pytest.raises(TVMError, match="the model has no input 'image'; it has data"):
        DPTuner(mod, {"image": (1, 8, 6, 6)}, [], ["nn.conv2d"], "llvm")
    with pytest.raises(TVMError, match="there is no record of .*; tune the tasks of the model first"):
        DPTuner(mod, {"data": (1, 8, 6, 6)}, [], ["nn.conv2d"], "llvm")
