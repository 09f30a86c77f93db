"""What scheduling a kernel says (fallbacks, plans that do not fit) is told again when the kernel comes from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.cli.models import executor_of
from tilewright.cli.profiling import fallback_lines, profile_kernels, render_profile, rows_of
from tilewright.ir import IRModule
from tilewright.relay.backend.kernels import machine_code
from tilewright.relay.backend.model_cache import FEWEST_CALLS
from tilewright.scheduling.database import PlanWarning, append_plan
from tilewright.target import Target
from tilewright.tir.schedule import Fallback


def model() -> IRModule:
    x = relay.var("x", shape=(1, 24))
    return IRModule.from_expr(relay.sort(relay.nn.softmax(x)))


@pytest.fixture
def given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules that do without a step of softmax."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    real = machine_code.schedule_kernel

    def schedule(func: Any, target: Target, plan: Any = None) -> Any:
        found = real(func, target, plan)
        if "softmax" in str(func.attrs["global_symbol"]):
            plan.fallbacks.append(Fallback("rows [in] one loop", "they are not"))
        return found

    monkeypatch.setattr(machine_code, "schedule_kernel", schedule)


@pytest.mark.parametrize("executor", ["aot", "vm"])
def test_fallbacks_are_in_the_profile(executor: str, given_up: None, tmp_path: Path) -> None:
    for _ in ("compiled", "from the cache"):
        with tvm.transform.PassContext(opt_level=3):
            build: Any = relay.vm.compile if executor == "vm" else relay.build
            build(model(), "llvm").export_library(tmp_path / "m.so")
        run = executor_of(tvm.runtime.load_module(tmp_path / "m.so"))
        run.set_input(0, np.zeros((1, 24), np.float32))
        run.run()
        times = profile_kernels(run, 0.01, 1)
        rows = rows_of(times)
        (name,) = [r["kernel"] for r in rows if r["fallbacks"]]
        assert fallback_lines(rows) == [
            "schedules: 1 kernel does without a step",
            f"  {name}: rows [in] one loop: they are not",
        ]
        assert "rows [in] one loop" in str(render_profile(times, 5, "m").caption)


def test_kernels_from_the_cache_tell_of_plans_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second build was silent, since only scheduling a kernel found out."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    target, path = Target("llvm"), tmp_path / "plans.jsonl"
    with target, tvm.transform.PassContext(opt_level=3):
        optimized, _ = relay.optimize(model(), target)
        kernel = kernels_of(optimized, target)[0]
    append_plan(path, kernel.digest.hex(), kernel.name, target.text_for_all, {"x.y": 1})
    for _ in ("compiled", "from the cache"):
        with (
            tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(path)}),
            pytest.warns(PlanWarning, match=r"does not fit: x\.y: there is no such decision"),
        ):
            relay.build(model(), target)


def kernels_of(mod: IRModule, target: Target) -> list[Any]:
    from tilewright.relay.backend.te_compiler import TECompiler

    compiler = TECompiler(target)
    functions = [e for e in relay.analysis.post_order(mod["main"].body) if isinstance(e, relay.Function)]
    return [compiler.kernel(f) for f in functions]


@pytest.mark.parametrize("of", ["a kernel", "the program"])
def test_whole_models_whose_plans_do_not_fit_are_told_of_in_every_build(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of whole models answered the second build, in silence."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    y: Any = relay.var("x", shape=(4, 24))
    weight = relay.const(np.eye(24, dtype=np.float32))
    for _ in range(FEWEST_CALLS):
        y = relay.sort(relay.nn.dense(y, weight))
    mod, target, path = IRModule.from_expr(y), Target("llvm"), tmp_path / "plans.jsonl"
    if of == "the program":
        problem = "dense(4x24x24, 32 bits)"
        append_plan(path, problem, problem, target.text_for_all, {"panel": 7})
    else:
        with target, tvm.transform.PassContext(opt_level=3):
            kernel = kernels_of(relay.optimize(mod, target)[0], target)[0]
        append_plan(path, kernel.digest.hex(), kernel.name, target.text_for_all, {"x.y": 1})
    for _ in range(2):
        with (
            tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(path)}),
            pytest.warns(PlanWarning, match="does not fit: (x.y|dense.*panel)"),
        ):
            relay.build(mod, target)
