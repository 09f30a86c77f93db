"""Whole models from the compile cache: what hits and what misses, what a hit answers, damage, and what is never kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, tir
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule, Op
from tilewright.ir.transform import PassContext
from tilewright.relay.backend import compilation as building
from tilewright.relay.backend import model_cache
from tilewright.support import cache

ROOT = Path(__file__).resolve().parents[3]
LAYERS = model_cache.FEWEST_CALLS // 2
PROGRAM = """
from tests.relay.backend import test_model_cache as t

seen = t.counted_passes(t.building)
print(float(t.result(t.relay.build(t.network(), "llvm")).sum()), len(seen))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untold_operators: None) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "optimize", building.optimize)
    return tmp_path / "cache"


def counted_passes(module: Any) -> list[Any]:
    """A list that grows with each run of the relay passes."""
    seen: list[Any] = []
    optimize: Callable[..., Any] = module.optimize

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        return optimize(*args, **kwargs)

    module.optimize = counted
    return seen


def network(scale: float = 1.0, name: str = "x", layers: int = LAYERS, last: Any = relay.tanh) -> IRModule:
    """Products of 64 x 64 that alternate with an operator."""
    rng = np.random.default_rng(0)
    x: Any = relay.var(name, shape=(3, 64))
    y = x
    for k in range(layers):
        weights = (rng.standard_normal((64, 64)) * 0.1).astype("float32")
        weights[0, 0] *= scale if k == layers - 1 else 1.0
        y = last(relay.nn.dense(y, relay.const(weights)))
    return IRModule.from_expr(y)


def result(library: Any) -> np.ndarray:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input(0, np.linspace(-1, 1, 192, dtype="float32").reshape(3, 64))
    executor.run()
    return executor.get_output(0).numpy()  # type: ignore[no-any-return]


def test_second_build_runs_no_pass() -> None:
    seen = counted_passes(building)
    first = relay.build(network(), "llvm")
    second = relay.build(network(), "llvm")
    assert len(seen) == 1
    np.testing.assert_array_equal(result(first), result(second))
    assert first.metadata == second.metadata and first.objects == second.objects and first.symbols == second.symbols
    np.testing.assert_array_equal(first.constants().numpy(), second.constants().numpy())
    assert type(first) is type(second) and first.get_devices() == second.get_devices()
    for name, value in first.get_params().items():
        np.testing.assert_array_equal(value.numpy(), second.get_params()[name].numpy())


def test_what_a_hit_is_asked_for_is_made_then() -> None:
    first, second = relay.build(network(), "llvm"), relay.build(network(), "llvm")
    assert [c.kernel.name for c in first.plan.calls] == [c.kernel.name for c in second.plan.calls]
    assert tvm.ir.structural_equal(first.ir_mod, second.ir_mod)
    for kind in ("te", "tir", "lowered", "ll"):
        for call in first.plan.calls:
            assert first.kernel_source(call.kernel.name, kind) == second.kernel_source(call.kernel.name, kind)
    assert first.get_source() == second.get_source()


def test_options_of_the_first_build_hold_for_what_is_made_later() -> None:
    with PassContext(opt_level=3, disabled_pass=["PackDense"]):
        first, second = relay.build(network(), "llvm"), relay.build(network(), "llvm")
    assert tvm.ir.structural_equal(first.ir_mod, second.ir_mod)


def test_exports_from_the_cache(tmp_path: Path) -> None:
    expected = result(relay.build(network(), "llvm"))
    relay.build(network(), "llvm").export_library(tmp_path / "model.so")
    np.testing.assert_array_equal(result(tvm.runtime.load_module(str(tmp_path / "model.so"))), expected)


def test_writing_to_parameters_of_one_library_leaves_others() -> None:
    expected = result(relay.build(network(), "llvm"))
    changed = relay.build(network(), "llvm")
    for value in changed.get_params().values():
        value.copyfrom(np.zeros(value.shape, str(value.dtype)))
    np.testing.assert_array_equal(result(relay.build(network(), "llvm")), expected)


CHANGES: dict[str, Callable[[], Any]] = {
    "one weight": lambda: relay.build(network(1.0001), "llvm"),
    "the name of an input": lambda: relay.build(network(name="y"), "llvm"),
    "an operator": lambda: relay.build(network(last=relay.nn.relu), "llvm"),
    "the target": lambda: relay.build(network(), "llvm -num-cores=3"),
    "the executor": lambda: relay.build(network(), "llvm", executor=relay.backend.Executor("graph")),
    "the library's name": lambda: relay.build(network(), "llvm", mod_name="other"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_misses(change: str) -> None:
    relay.build(network(), "llvm")
    seen = counted_passes(building)
    CHANGES[change]()
    assert len(seen) == 1


def test_options_are_told_apart() -> None:
    seen = counted_passes(building)
    for options in ({"opt_level": 2}, {"opt_level": 3}, {"opt_level": 3, "disabled_pass": ["PackDense"]}):
        for _ in range(2):
            with PassContext(**options):
                relay.build(network(), "llvm")
    assert len(seen) == 3


def test_parameters_given_apart_are_part_of_the_model() -> None:
    x, w = relay.var("x", shape=(3, 64)), relay.var("w", shape=(64, 64))
    y: Any = x
    for _ in range(LAYERS):
        y = relay.tanh(relay.nn.dense(y, w))
    mod = IRModule.from_expr(relay.Function([x, w], y))
    ones, twos = np.full((64, 64), 0.01, "float32"), np.full((64, 64), 0.02, "float32")
    seen = counted_passes(building)
    a, b, c = (result(relay.build(mod, "llvm", params={"w": v})) for v in (ones, twos, ones))
    assert len(seen) == 2 and np.abs(a - b).max() > 0
    np.testing.assert_array_equal(a, c)


def test_instruments_see_every_pass() -> None:
    relay.build(network(), "llvm")
    timing = tvm.ir.instrument.PassTimingInstrument()
    seen = counted_passes(building)
    with PassContext(opt_level=2, instruments=[timing]):
        relay.build(network(), "llvm")
    assert len(seen) == 1


@pytest.mark.parametrize("layers", [1, LAYERS])
def test_passes_added_to_the_lowering_run_in_every_build(layers: int) -> None:
    """Another pass of the same name would find what the first one made, of kernels as of whole models."""
    seen: list[str] = []

    def added(tag: str) -> Any:
        def note(f: tir.PrimFunc, mod: IRModule, context: PassContext) -> tir.PrimFunc:
            seen.append(tag)
            return f

        return tir.transform.prim_func_pass(note, opt_level=0, name="note")

    for tag in ("first", "second"):
        with PassContext(config={"tir.add_lower_pass": [(1, added(tag))]}):
            relay.build(network(layers=layers), "llvm")
    assert seen.count("first") == seen.count("second") > 0


def test_operators_of_programs_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Op, "_properties", {**Op._properties, ("tanh", "FTVMLegalize"): lambda *args: None})
    seen = counted_passes(building)
    relay.build(network(), "llvm")
    relay.build(network(), "llvm")
    assert len(seen) == 2


def test_small_programs_are_not_kept(own_cache: Path) -> None:
    seen = counted_passes(building)
    relay.build(network(layers=2), "llvm")
    relay.build(network(layers=2), "llvm")
    assert len(seen) == 2


def test_damaged_constants_are_made_anew(own_cache: Path) -> None:
    expected = result(relay.build(network(), "llvm"))
    (constants,) = [p for p in own_cache.rglob("*") if p.is_file() and p.read_bytes()[:4] == cache.MAPPED_MAGIC]
    raw = bytearray(constants.read_bytes())
    raw[cache.MAPPED_FROM + 1000] ^= 1
    constants.write_bytes(raw)
    seen = counted_passes(building)
    with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew"):
        np.testing.assert_array_equal(result(relay.build(network(), "llvm")), expected)
    relay.build(network(), "llvm")
    assert len(seen) == 1


def test_constants_that_would_fill_the_cache_are_not_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", str(1 << 18))
    relay.build(network(), "llvm")
    assert not [p for p in own_cache.rglob("*") if p.is_file() and p.read_bytes()[:4] == cache.MAPPED_MAGIC]


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    seen = counted_passes(building)
    np.testing.assert_array_equal(result(relay.build(network(), "llvm")), result(relay.build(network(), "llvm")))
    assert len(seen) == 2


def test_other_processes_find_it() -> None:
    answers = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, cwd=ROOT, check=True
        )
        answers.append(done.stdout.split())
    assert [a[1] for a in answers] == ["1", "0"] and answers[0][0] == answers[1][0]
