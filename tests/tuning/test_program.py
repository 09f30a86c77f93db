"""Decisions about whole programs: by times that need no machine, and those of a small network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.tuning.numbers import Formula, Names, Pair, Pairs
from tilewright import relay, te
from tilewright.contrib.graph_executor import GraphModule
from tilewright.ir import IRModule
from tilewright.relay.backend.model_program import ModelProgram
from tilewright.support.errors import RPCError, TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tuning.measure import Measured, Run
from tilewright.tuning.program import Program, Variant, decide
from tilewright.tuning.task import Task


class Fixed(Pairs):
    """A kernel whose untuned program is a pair."""

    def __init__(self, func: PrimFunc, pair: Pair) -> None:
        super().__init__(func)
        self.pair = pair

    def untuned(self) -> IRModule:
        return IRModule.from_expr(self.func.with_attr("pair", self.pair))


class Layers(Program):
    """Three kernels (number of the layer, its form); the third layer has the form 2 only where the second has 1; the form 3 is refused."""

    def __init__(self) -> None:
        a = te.placeholder((4,), name="a")
        self.func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="b")])
        self.variants = 0

    def variant(self, given: Mapping[str, Any]) -> Variant:
        self.variants += 1
        choices: dict[str, list[int]] = {"first.form": [0, 1], "second.form": [0, 1, 3], "third.form": [0, 1]}
        if given.get("second.form") == 1:
            choices["third.form"] = [0, 1, 2]
        values = {name: given.get(name, 0) for name in choices}
        if 3 in values.values():
            raise TVMError("second.form: 3 does not fit")
        pairs = [(i, form) for i, form in enumerate(values.values())]
        tasks = [Task(f"{p}", f"{p}", Target("llvm"), Fixed(self.func, p), weight=1 + p[0]) for p in pairs]
        return Variant(tasks, values, choices)

    def order(self, name: str) -> int:
        return ("second.form", "first.form", "third.form").index(name)


SECONDS = {(0, 0): 1.0, (0, 1): 0.99, (1, 0): 2.0, (1, 1): 1.0, (2, 0): 1.0, (2, 1): 2.0, (2, 2): 0.5}


def test_decisions_are_changed_where_kernels_become_faster() -> None:
    names, told, kept = Names(), [], []
    runner = Formula(lambda pair: SECONDS[pair])
    found = decide(
        Layers(),
        names,
        runner,
        keep=lambda given, name: kept.append((dict(given), name)),
        report=lambda done, all_, text: told.append((done, all_, text)),
    )
    assert kept == [({"second.form": 1}, "second.form"), ({"second.form": 1, "third.form": 2}, "third.form")]
    assert found.given == {"second.form": 1, "third.form": 2}
    assert found.untuned == pytest.approx(1 + 2 * 2 + 3) and found.seconds == pytest.approx(1 + 2 + 1.5)
    assert found.tried == 5 and told[0] == (0, 4, "second.form = 1") and told[-1] == (4, 5, "third.form = 2")
    assert len(names.built) == len(set(names.built)) == len(SECONDS), "each kernel is built once"


def test_the_time_is_over() -> None:
    program = Layers()
    assert decide(program, Names(), Formula(lambda pair: SECONDS[pair]), seconds=0).tried == 0 and program.variants == 1
    assert decide(program, Names(), Formula(lambda pair: SECONDS[pair]), tries=1).given == {"second.form": 1}


def test_a_time_that_is_too_good_is_measured_again() -> None:
    calls: dict[Pair, int] = {}

    def lucky(pair: Pair) -> float:
        calls[pair] = calls.get(pair, 0) + 1
        return 0.1 if pair == (0, 1) and calls[pair] == 1 else 2.0 if pair == (0, 1) else 1.0

    assert decide(Layers(), Names(), Formula(lucky)).given == {}


def test_small_gains_are_told_from_noise() -> None:
    """On a machine whose load changes all the time, 8 % are found, and what is 3 % slower is not taken."""
    seconds = SECONDS | {(0, 1): 1.03, (1, 1): 1.84, (2, 2): 2.0}
    gains, none = 0, 0
    for seed in range(20):
        noise = Random(seed)
        noisy = Formula(lambda pair: seconds[pair], load=lambda call, noise=noise: noise.uniform(0.95, 1.05))  # type: ignore[misc]
        given = decide(Layers(), Names(), noisy).given
        gains += given.get("second.form") == 1
        none += "first.form" in given
    assert gains >= 19 and none <= 1


def test_boards_that_are_gone_end_the_trials() -> None:
    class Leaving(Formula):
        def run(self, runs: Sequence[Run]) -> list[Measured]:
            if self.calls > 20:
                raise RPCError("there is no board")
            return super().run(runs)

    program, kept = Layers(), list[dict[str, Any]]()
    with pytest.raises(RPCError):
        decide(program, Names(), Leaving(lambda pair: SECONDS[pair]), keep=lambda given, _: kept.append(dict(given)))
    assert kept == [{"second.form": 1}]


def test_kernels_that_do_not_run() -> None:
    runner = Formula(lambda pair: SECONDS[pair], fails=lambda pair: pair == (1, 1))
    assert decide(Layers(), Names(), runner).given == {}
    found = decide(Layers(), Names(), Formula(lambda pair: SECONDS[pair], fails=lambda pair: pair == (0, 0)))
    assert found.given == {"second.form": 1, "third.form": 2} and found.untuned == pytest.approx(2 * 2 + 3)


def test_the_decisions_of_a_model_are_kept_for_builds(tmp_path: Path) -> None:
    data = relay.var("data", shape=(1, 16, 12, 12))
    weight = relay.const(np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32"))
    mod = tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1)))))
    with tvm.transform.PassContext(opt_level=3):
        program = ModelProgram(mod, "llvm")
        base = program.variant({})
        (name,) = [n for n in base.choices if n.startswith("winograd(")]
        value = next(v for v in base.choices[name] if v != base.values[name])
        other = program.variant({name: value})
        assert other.values[name] == value
        assert {t.key for t in other.tasks} != {t.key for t in base.tasks}
        with pytest.raises(TVMError, match="5 is none of its choices"):
            program.variant({name: 5})
        program.keep(tmp_path / "plans", {name: value}, name)
        with tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(tmp_path / "plans")}):
            assert {t.key for t in ModelProgram(mod, "llvm").variant({name: value}).tasks} == {
                t.key for t in other.tasks
            }
            decided = relay.build(mod, "llvm")
        untuned = relay.build(mod, "llvm")
    assert {k["name"] for k in decided.metadata["kernels"]} != {k["name"] for k in untuned.metadata["kernels"]}
    image = np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype("float32")
    results = []
    for library in (decided, untuned):
        executor = GraphModule(library["default"](tvm.cpu()))
        executor.run(data=image)
        results.append(executor.get_output(0).numpy())
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)
