"""Configurations that are compiled and run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.autotvm import templates
from tilewright import autotvm, te
from tilewright.autotvm.measure import create_measure_batch
from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput
from tilewright.rpc.server import Server
from tilewright.rpc.tracker import Tracker
from tilewright.script import tir as T
from tilewright.support.errors import TVMError


@autotvm.template("test/trouble")
def trouble(kind: str) -> Any:
    """Configurations that fail each in its own way: the knob says whether this one does."""
    cfg = autotvm.get_config()
    cfg.define_knob("bad", [0, 1])
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    if cfg["bad"].val and kind == "refused":
        cfg.raise_error("it is too large")
    if cfg["bad"].val and kind == "raised":
        raise KeyError("of the template")
    if cfg["bad"].val and kind == "schedule":
        s[b].reorder(s[b].op.axis[0], s[b].op.axis[0])
    return s, [a, b]


def measured(task: Any, indices: list[int], builder: Any = None, **runner: Any) -> list[Any]:
    options = autotvm.measure_option(
        builder or autotvm.LocalBuilder(timeout=60, n_parallel=1),
        autotvm.LocalRunner(**{"number": 2, "repeat": 2, "cooldown_interval": 0, **runner}),
    )
    batch = create_measure_batch(task, options)
    try:
        return batch([MeasureInput(task.target, task, task.config_space.get(i)) for i in indices])
    finally:
        options["runner"].close()
        options["builder"].close()


def test_times_and_errors() -> None:
    task = templates.task(64)
    before = time.time()
    first, second = measured(task, [0, 13], repeat=3)
    for result in (first, second):
        assert result.error_no == MeasureErrorNo.NO_ERROR and 1 <= len(result.costs) <= 3
        assert all([0 < seconds < 1 for seconds in result.costs]) and result.timestamp >= before
        assert result.all_cost > sum(result.costs)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("refused", "TVMError: the template refuses the configuration: it is too large"),
        ("raised", "KeyError: 'of the template'"),
        ("schedule", "ScheduleError: "),
    ],
)
def test_a_template_that_refuses(kind: str, message: str) -> None:
    good, bad = measured(autotvm.task.create("test/trouble", (kind,), "llvm"), [0, 1])
    assert (
        good.error_no == 0 and bad.error_no == MeasureErrorNo.INSTANTIATION_ERROR and bad.costs[0].startswith(message)
    )


@autotvm.template("test/counted")
def counted() -> Any:
    """Steps as many as its input says."""
    autotvm.get_config().add_flop(1)
    n = te.placeholder((1,), name="n", dtype="int32")

    def body(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        count, total = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        total[0] = 0
        with ib.for_range(0, count[0], "i") as i:
            total[0] = (total[0] * 3 + i) % 1001
        return ib.get()

    total = te.extern((1,), [n], body, name="total", dtype="int32")
    return te.create_schedule(total.op), [n, total]


def test_values_of_inputs() -> None:
    """The time of a program whose steps depend on its input is that for the values that were given."""
    task = autotvm.task.create("test/counted", (), "llvm")
    runner = autotvm.LocalRunner(number=1, repeat=2, cooldown_interval=0)
    option = autotvm.measure_option(autotvm.LocalBuilder(timeout=60, n_parallel=1), runner)
    batch = create_measure_batch(task, option)
    given = [MeasureInput(task.target, task, task.config_space.get(0))]
    seconds = []
    try:
        for steps in (1, 1_000_000):
            runner.ref_input = [np.array([steps], "int32"), np.zeros(1, "int32")]
            assert runner.ref_input[0][0] == steps
            (result,) = batch(given)
            assert not result.error_no, result
            seconds.append(min(result.costs))
        runner.ref_input = [np.zeros(2, "int32")]
        with pytest.raises(TVMError, match=r"which are int32\[1\], int32\[1\], but int32\[2\] were given"):
            batch(given)
    finally:
        runner.close()
        option["builder"].close()
    assert seconds[1] > 100 * seconds[0]


def link(output: str, objects: Any, options: Any = None, **_: Any) -> None:
    """A linker of the user."""
    from tilewright.contrib.cc import create_shared

    create_shared(output, objects, options)


def refuse(output: str, objects: Any, options: Any = None, **_: Any) -> None:
    raise RuntimeError("there is no linker")


def test_a_linker_of_the_user() -> None:
    task = templates.task(16)
    options = {"build_option": {"tir.disable_vectorize": True}}
    (good,) = measured(task, [5], autotvm.LocalBuilder(60, 1, options, build_func=link))
    assert good.error_no == 0
    (bad,) = measured(task, [5], autotvm.LocalBuilder(60, 1, build_func=refuse))
    assert bad.error_no == MeasureErrorNo.COMPILE_HOST and "there is no linker" in bad.costs[0]
    with pytest.raises(ValueError, match="build_func is 'default', 'ndk' or a function"):
        autotvm.LocalBuilder(build_func="other")


def test_options() -> None:
    from tilewright.autotvm.measure.measure import measure_option

    found = measure_option("local", "local")
    assert measure_option is autotvm.measure_option
    assert isinstance(found["builder"], autotvm.LocalBuilder) and isinstance(found["runner"], autotvm.LocalRunner)
    with pytest.raises(ValueError, match="a builder and a runner are needed, or 'local'"):
        autotvm.measure_option("remote", "local")
    with pytest.raises(TVMError, match="a builder works for a task"):
        autotvm.LocalBuilder().build([])
    with pytest.raises(TVMError, match="a runner works for a task"):
        autotvm.LocalRunner().run([], [])


def test_a_tuner_whose_best_is_built(tmp_path: Path) -> None:
    log, task = tmp_path / "matmul.log", templates.task(32)
    tuner = autotvm.tuner.RandomTuner(task)
    options = autotvm.measure_option(
        autotvm.LocalBuilder(60, 2), autotvm.LocalRunner(number=2, repeat=1, min_repeat_ms=1, cooldown_interval=0)
    )
    tuner.tune(4, options, callbacks=[autotvm.callback.log_to_file(str(log))])
    pairs = list(autotvm.record.load_from_file(log))
    assert len(pairs) == 4 and all([not r.error_no for _, r in pairs])
    with autotvm.apply_history_best(str(log)), tvm.target.Target("llvm"):
        context = autotvm.DispatchContext.current
        assert context.query(tvm.target.Target("llvm"), task.workload).index == tuner.best_config.index
        assert tvm.build(*templates.matmul(32))


@contextmanager
def board() -> Iterator[tuple[Tracker, Server]]:
    tracker = Tracker(port=9190, port_end=9290, silent=True)
    server = Server(key="board", tracker_addr=("127.0.0.1", tracker.port), port=9090, port_end=9190, silent=True)
    try:
        yield tracker, server
    finally:
        server.terminate()
        tracker.terminate()


def through(runner: Any, count: int = 1) -> list[Any]:
    """The results of good configurations by a runner."""
    task = templates.task(16)
    options = autotvm.measure_option(autotvm.LocalBuilder(60, 1), runner)
    try:
        batch = create_measure_batch(task, options)
        return batch([MeasureInput(task.target, task, task.config_space.get(3 + i)) for i in range(count)])
    finally:
        runner.close()
        options["builder"].close()


def test_a_runner_through_a_tracker() -> None:
    from tilewright.autotvm.measure.measure_methods import check_remote

    with board() as (tracker, _):
        address = "127.0.0.1", tracker.port
        loader = autotvm.measure.default_module_loader()
        for given in (None, loader):
            (result,) = through(
                autotvm.RPCRunner(
                    "board", *address, timeout=60, number=2, repeat=1, cooldown_interval=0, module_loader=given
                )
            )
            assert result.error_no == 0, result
        assert check_remote("llvm", "board", *address)


def test_a_loader_prepares_the_board_for_each_library() -> None:
    seen: list[str] = []

    def reset(remote: Any, build_result: Any) -> None:
        seen.append(Path(build_result.filename).name)
        assert remote.device("cpu", 0).exist

    loader = autotvm.measure.default_module_loader(pre_load_function=reset)
    results = through(autotvm.LocalRunner(timeout=60, number=2, repeat=3, cooldown_interval=0, module_loader=loader), 2)
    assert [r.error_no for r in results] == [0, 0], results
    assert len(seen) == 2 and all([len(r.costs) == 3 and min(r.costs) > 0 for r in results])


def test_a_loader_of_the_user() -> None:
    """It needs no tracker, and what it raises is the result of the measurement."""
    left: list[str] = []

    @contextmanager
    def load(remote_kwargs: Any, build_result: Any) -> Iterator[Any]:
        assert remote_kwargs["device_key"] == "none"
        if left:
            raise ConnectionError("the board is not there")
        try:
            yield SimpleNamespace(device=tvm.device), tvm.runtime.load_module(build_result.filename)
        finally:
            left.append(build_result.filename)

    runner = autotvm.RPCRunner("none", "127.0.0.1", 1, number=2, repeat=1, cooldown_interval=0, module_loader=load)
    good, bad = through(runner, 2)
    assert good.error_no == 0 and len(left) == 1
    assert bad.error_no == MeasureErrorNo.RUNTIME_DEVICE and bad.costs == ("ConnectionError: the board is not there",)


def test_a_loader_that_hangs_is_given_up() -> None:
    @contextmanager
    def load(*_: Any) -> Iterator[Any]:
        time.sleep(30)
        yield

    (result,) = through(autotvm.LocalRunner(timeout=0.2, cooldown_interval=0, module_loader=load))
    assert result.error_no == MeasureErrorNo.RUN_TIMEOUT and "took more than 0.4 s" in result.costs[0]


def test_checks_of_devices() -> None:
    from tilewright.autotvm.measure.measure_methods import gpu_verify_pass, set_cuda_target_arch, vtcm_verify_pass
    from tilewright.autotvm.task.space import InstantiationError

    @tvm.script.ir_module
    class Module:
        @T.prim_func
        def main(a: T.Buffer((64,), "float32")) -> None:
            i = T.launch_thread("threadIdx.x", 64)
            vtcm = T.allocate([64], "float32", "global.vtcm")
            vtcm_1 = T.Buffer((64,), "float32", data=vtcm, scope="global.vtcm")
            vtcm_1[i] = a[i]

    gpu_verify_pass(max_threads_per_block=64)(Module)
    with pytest.raises(InstantiationError, match="beyond the limits of the GPU"):
        gpu_verify_pass(max_threads_per_block=32)(Module)
    vtcm_verify_pass(vtcm_capacity=256)(Module)
    with pytest.raises(InstantiationError, match="more than the 255 bytes of the VTCM"):
        vtcm_verify_pass(vtcm_capacity=255)(Module)
    with pytest.raises(ValueError, match="-arch=sm_80"):
        set_cuda_target_arch("sm_80")
