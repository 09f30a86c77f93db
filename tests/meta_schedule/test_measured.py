"""Builders and runners of the engine under their classic names: libraries are built, run and measured, here and on boards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.kernels import elementwise, gemm
from tests.meta_schedule.test_tuning import small_search
from tests.support.test_workers import until
from tilewright import cpu, nd, tir
from tilewright import meta_schedule as ms
from tilewright.driver import build
from tilewright.ir import IRModule
from tilewright.meta_schedule import builder as B
from tilewright.meta_schedule import runner as R
from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.tir_integration import compile_tir
from tilewright.meta_schedule.utils import remove_build_dir
from tilewright.rpc.server import Server
from tilewright.rpc.tracker import Tracker
from tilewright.runtime import load_module
from tilewright.support.errors import RPCError
from tilewright.target import Target
from tilewright.tuning.measure import ENTRY

QUICK = R.EvaluatorConfig(repeat=2, min_repeat_ms=1)


def module(func: tir.PrimFunc) -> IRModule:
    return IRModule.from_expr(func)


def input_of(func: tir.PrimFunc, path: str) -> R.RunnerInput:
    return R.RunnerInput(path, "llvm", ArgInfo.from_entry_func(module(func)))


def dynamic() -> tir.PrimFunc:
    """A function that calls what no library has."""
    from tilewright.script import from_source

    func: Any = from_source(
        """
@T.prim_func
def main(A: T.Buffer((2,), "float32")):
    T.evaluate(T.call_extern("int32", "no_such_function_of_tests"))
"""
    )
    return func  # type: ignore[no-any-return]


def build_of_test(mod: IRModule, target: Target, params: Any) -> Any:
    """Takes constants into account, to show that they arrive."""
    assert params is None or list(params) == ["w"], params
    if params is not None:
        raise ValueError("there are constants")
    return build(mod["main"], target=target, name="of_the_user")


def test_libraries_are_built() -> None:
    builder = ms.Builder.create("local", max_workers=1)
    try:
        good, bad = builder.build([B.BuilderInput(module(f), "llvm") for f in (elementwise(4, 4), dynamic())])
        assert good.error_msg is None and good.artifact_path is not None
        x, y = nd.array(np.ones((4, 4), np.float32)), nd.array(np.zeros((4, 4), np.float32))
        load_module(good.artifact_path)[ENTRY](x, y)
        assert (y.numpy() == 3).all()
        assert bad.artifact_path is None and bad.error_msg is not None and bad.error_msg.startswith("build: ")
        remove_build_dir(good.artifact_path)
        assert not os.path.exists(os.path.dirname(good.artifact_path))
    finally:
        builder.close()  # type: ignore[attr-defined]


def test_functions_of_users_build() -> None:
    builder = B.LocalBuilder(max_workers=1, f_build=build_of_test)
    try:
        inputs = [B.BuilderInput(module(elementwise(4, 4)), "llvm", params) for params in (None, {"w": 1})]
        good, bad = builder.build(inputs)
        assert good.artifact_path is not None
        assert load_module(good.artifact_path)["of_the_user"] is not None
        assert bad.error_msg is not None and bad.error_msg.endswith("there are constants")
        remove_build_dir(good.artifact_path)
    finally:
        builder.close()
    with pytest.raises(ValueError, match="a builder is one of local, but 'x' was given"):
        ms.Builder.create("x")


def test_measured_here(tmp_path: Path) -> None:
    paths = []
    for i, func in enumerate((elementwise(4, 4), gemm(16, 16, 16))):
        paths.append(str(tmp_path / f"{i}.so"))
        build(func, target="llvm", name=ENTRY).export_library(paths[-1])
    runner = R.LocalRunner(20.0, QUICK)
    try:
        inputs = [input_of(elementwise(4, 4), paths[0]), input_of(elementwise(4, 4), str(tmp_path / "none.so"))]
        good, bad = [future.result() for future in runner.run(inputs)]
        assert good.error_msg is None and good.run_secs and all([0 < s < 1 for s in good.run_secs])
        assert bad.run_secs is None and bad.error_msg is not None and bad.error_msg.startswith("run: ")
    finally:
        runner.close()
    with pytest.raises(ValueError, match="a runner is one of local, rpc(, rpc_micro)?, but 'x' was given"):
        ms.Runner.create("x")
    with pytest.raises(ValueError, match="either seconds or an error message"):
        R.LocalRunnerFuture()


def evaluated_by_test(*args: Any) -> list[float]:
    """Instead of times, how many lists of arguments there are, and how many arguments."""
    return [float(len(args[-1])), *[float(len(a)) for a in args[-1]]]


def test_measured_by_functions_of_users(tmp_path: Path) -> None:
    path = str(tmp_path / "kernel.so")
    build(elementwise(4, 4), target="llvm", name=ENTRY).export_library(path)
    counted = R.LocalRunner(60.0, QUICK, alloc_repeat=3, f_run_evaluator=evaluated_by_test)
    timed, unknown = R.LocalRunner(60.0, QUICK, alloc_repeat=2), R.LocalRunner(60.0, f_cleanup="no_such_function")
    try:
        found = [r.run([input_of(elementwise(4, 4), path)])[0].result() for r in (counted, timed, unknown)]
    finally:
        for runner in (counted, timed, unknown):
            runner.close()
    assert found[0].run_secs == [3.0, 2.0, 2.0, 2.0]
    assert found[1].run_secs is not None and len(found[1].run_secs) == 4 and max(found[1].run_secs) < 1
    assert found[2].error_msg is not None and "there is no function 'no_such_function'" in found[2].error_msg


def test_measured_on_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "kernel.so")
    build(elementwise(4, 4), target="llvm", name=ENTRY).export_library(path)
    for name in ("HOST", "PORT", "KEY"):
        monkeypatch.delenv(f"TVM_TRACKER_{name}", raising=False)
    with pytest.raises(ValueError, match="tracker_host of the RPCConfig is not given"):
        R.RPCRunner()
    tracker = Tracker("127.0.0.1", 0, silent=True)
    server = Server("127.0.0.1", 0, key="test", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    try:
        monkeypatch.setenv("TVM_TRACKER_HOST", "127.0.0.1")
        monkeypatch.setenv("TVM_TRACKER_PORT", str(tracker.port))
        config = R.RPCConfig(tracker_key="test", session_timeout_sec=60)
        assert until(lambda: config.count_num_servers() == 1)
        with pytest.raises(RuntimeError, match="has no server with the key 'other'"):
            config._replace(tracker_key="other").count_num_servers(allow_missing=False)
        assert config.connect_server().cpu(0).exist
        runner = R.RPCRunner(config, QUICK, max_workers=1)
        futures = runner.run([input_of(elementwise(4, 4), path)] * 2)
        results = [future.result() for future in futures]
        assert all([future.done() for future in futures])
        assert [r.error_msg for r in results] == [None, None] and all([r.run_secs for r in results])
        counted, timed = (
            R.RPCRunner(config, QUICK, max_workers=1, f_run_evaluator=evaluated_by_test),
            R.RPCRunner(config, QUICK, max_workers=1, alloc_repeat=2),
        )
        found = [r.run([input_of(elementwise(4, 4), path)])[0].result() for r in (counted, timed)]
        counted.close()
        timed.close()
        assert found[0].run_secs == [1.0, 2.0]
        assert found[1].run_secs is not None and len(found[1].run_secs) == 4 and max(found[1].run_secs) < 1
        # The next batch knows the board of the first one.
        server.terminate()
        assert until(lambda: config.count_num_servers() == 0)
        monkeypatch.setattr("tilewright.tuning.running.rpc.COMES_BACK", 0.1)
        (gone,) = runner.run([input_of(elementwise(4, 4), path)])
        with pytest.raises(RPCError, match=rf"any more \(lost: 127.0.0.1:{server.port}\), and none came back"):
            gone.result()
        runner.close()
    finally:
        server.terminate()
        tracker.terminate()


def test_a_kernel_is_tuned(tmp_path: Path) -> None:
    func = gemm(16, 16, 16)
    builder, runner = B.LocalBuilder(max_workers=2), R.LocalRunner(20.0, QUICK)
    try:
        db = ms.tune_tir(
            func, "llvm -num-cores=2", str(tmp_path), 6, num_trials_per_iter=3, builder=builder, runner=runner,
            strategy=small_search(), seed=1,
        )  # fmt: skip
    finally:
        builder.close()
        runner.close()
    assert len(db) == 6 and all([r.is_valid for r in db.get_all_tuning_records()])
    sch = compile_tir(db, func, "llvm")
    assert sch is not None
    a, b = (np.random.default_rng(i).standard_normal((16, 16)).astype(np.float32) for i in range(2))
    c = nd.array(np.zeros((16, 16), np.float32), cpu())
    build(sch.mod["main"], target="llvm")(nd.array(a), nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4, atol=1e-4)


@ms.derived_object
class Swapping(B.PyBuilder):
    """Builds the first module as it is, and another kernel for all later ones."""

    def __init__(self, other: tir.PrimFunc) -> None:
        self.engine, self.other, self.count = B.LocalBuilder(max_workers=1), other, 0

    def build(self, build_inputs: Any) -> list[B.BuilderResult]:
        self.count += 1
        given = (
            build_inputs if self.count == 1 else [B.BuilderInput(module(self.other), i.target) for i in build_inputs]
        )
        return self.engine.build(given)


def test_wrong_outputs_are_failures(tmp_path: Path) -> None:
    builder, runner = Swapping(gemm(4, 4, 4)), R.LocalRunner()
    try:
        db = ms.tune_tir(
            gemm(4, 4, 4, relu=True),
            "llvm",
            str(tmp_path),
            2,
            builder=builder,
            runner=runner,
            strategy="replay-trace",
            seed=1,
        )
    finally:
        builder.engine.close()
        runner.close()
    assert len(db) == 2 and not any([r.is_valid for r in db.get_all_tuning_records()])
