"""AutoTVM on emulated boards (make test-micro): a template is tuned by the boards' clocks, several boards at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import network, quantised_network, use_qemu
from tilewright import autotvm, micro, relay, te
from tilewright.autotvm.measure import MeasureErrorNo
from tilewright.micro.board import board
from tilewright.micro.debug_session import DebugSession
from tilewright.micro.errors import MicroError
from tilewright.micro.kernel_tuning import BoardRunner, compile_for_board
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Failure, Run, Source

NAME = "mps2_an500"
PATIENCE = 120
"""Seconds that a compilation may take on a busy machine."""


@pytest.fixture(scope="module", autouse=True)
def _qemu() -> None:
    use_qemu()


@autotvm.template("tests/micro/product")
def product(size: int) -> Any:
    """c = a b, of int32, tiled in two ways."""
    a, b = te.placeholder((size, size), "int32", "a"), te.placeholder((size, size), "int32", "b")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    cfg = autotvm.get_config()
    y, x = s[c].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_knob("order", [0, 1, 2])
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    (r,) = s[c].op.reduce_axis
    s[c].reorder(*[(yo, xo, r, yi, xi), (yo, xo, yi, xi, r), (yo, r, xo, yi, xi)][cfg["order"].val])
    return s, [a, b, c]


def config(name: str = NAME, **more: Any) -> dict[str, Any]:
    return micro.generate_config(name, instruction_shift=6, **more)


def test_tuning(tmp_path: Path) -> None:
    task = autotvm.task.create("tests/micro/product", args=(16,), target=board(NAME).target("llvm"))
    runner = micro.MicroRunner(config(), n_parallel=4)
    option = autotvm.measure_option(micro.micro_builder(PATIENCE, n_parallel=2), runner)
    records = tmp_path / "product.log"
    try:
        autotvm.tuner.RandomTuner(task).tune(
            n_trial=24, measure_option=option, callbacks=[autotvm.callback.log_to_file(str(records))]
        )
    finally:
        runner.close()
    found = [*autotvm.record.load_from_file(str(records))]
    assert len(found) == 24 and all([result.error_no == 0 for _, result in found])
    costs = {given.config.index: result.costs[0] for given, result in found}
    assert max(costs.values()) > 1.2 * min(costs.values()) > 0
    assert not DebugSession._open


def test_measurements_are_the_same_every_time() -> None:
    task = autotvm.task.create("tests/micro/product", args=(16,), target=board(NAME).target("llvm"))
    runner, builder = (
        micro.MicroRunner(config(), n_parallel=4, number=3, repeat=2),
        micro.micro_builder(PATIENCE, n_parallel=2),
    )
    runner.set_task(task)
    builder.set_task(task, {})
    given = [autotvm.measure.MeasureInput(task.target, task, task.config_space.get(k)) for k in range(16)]
    try:
        built = builder.build(given)
        first = runner.run(given, built)
        again = runner.run(given * 4, [*built] * 4)
    finally:
        runner.close()
        builder.close()
    for k, result in enumerate(again):
        assert result.error_no == MeasureErrorNo.NO_ERROR and len(result.costs) == 2
        assert result.costs == pytest.approx(first[k % 16].costs, rel=5e-3)


def test_the_kernels_of_a_model(tmp_path: Path) -> None:
    """Their plans are tuned by the boards' clocks; the model that is compiled with them has the same bits, and takes no longer, nor more
    code."""
    mod, weights = quantised_network()
    path, rounds = tmp_path / "plans.jsonl", []
    found = micro.tune_kernels(
        mod, weights, config(), path, trials=16, n_parallel=2, processes=1, report=rounds.append, code_growth=0
    )
    assert len(path.read_text().splitlines()) - len(found) == rounds[-1].trials <= 16 and len(found) == 5
    assert all([p.untuned is not None and 0 < p.fastest <= p.untuned < 0.1 for p in found])
    (before, plain), (after, tuned) = [taken(mod, weights, o) for o in ({}, {"relay.plans": str(path)})]
    assert after <= 1.001 * before and tuned <= plain


def taken(mod: tvm.IRModule, weights: Any, options: dict[str, Any], name: str = NAME) -> tuple[int, int]:
    """(ticks of a run, bytes of code) of a model on a board, whose output is that of this machine's."""
    given = mod["main"].params[0].type_annotation
    x = np.random.default_rng(2).integers(-128, 128, [int(d) for d in given.shape]).astype(str(given.dtype))
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    with tvm.transform.PassContext(opt_level=3, config=options):
        lib = relay.build(mod, board(name).target("llvm"), params=weights, executor=relay.backend.Executor("aot"))
    with micro.Session(config(name)) as session:
        model = micro.MicroExecutor(micro.create_micro_mod(lib, session))
        model.set_input("x", x)
        model.run()
        ticks = session.ticks
        output = model.get_output(0).numpy()
        if output.dtype == np.float32:
            np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-6)
        else:
            np.testing.assert_array_equal(output, expected)
        return ticks, model.module.image.sizes["text"]


@pytest.mark.parametrize(
    "name, made",
    [(NAME, quantised_network), ("microbit", quantised_network), ("hifive1", quantised_network)]
    + [("riscv32_virt", network), ("riscv32_virt_v", network)],
)
def test_the_tasks_of_a_model(name: str, made: Any, tmp_path: Path) -> None:
    """AutoTVM finds the operators of a model and tunes them; the model that is built with the records has the same bits, and takes no
    longer."""
    mod, weights = made()
    target, records = board(name).target("llvm"), tmp_path / "records.log"
    runner = micro.MicroRunner(config(name), n_parallel=2)
    option = autotvm.measure_option(micro.micro_builder(PATIENCE, n_parallel=1), runner)
    try:
        for task in autotvm.task.extract_from_program(mod["main"], params=weights, target=target):
            autotvm.tuner.GridSearchTuner(task).tune(
                n_trial=12, measure_option=option, callbacks=[autotvm.callback.log_to_file(str(records))]
            )
    finally:
        runner.close()
    assert all([result.error_no == 0 for _, result in autotvm.record.load_from_file(str(records))])
    before, _ = taken(mod, weights, {}, name)
    with autotvm.apply_history_best(str(records)):
        after, _ = taken(mod, weights, {}, name)
    assert after <= 1.001 * before


def test_measurements_that_fail(tmp_path: Path) -> None:
    """A board that is too small, and one that is lost."""
    source = Source(tvm.IRModule({"main": te.create_prim_func(addition())}), board(NAME).target("llvm"))
    library = compile_for_board(source, tmp_path / "kernel")
    run = Run(library, signature_of(source.program), library)
    runner = BoardRunner(config(section_constraints={"heap": 64}))
    try:
        (small,) = runner.run([run])
        assert small.failure == Failure.RUN and "the section 'heap' has no" in small.message
    finally:
        runner.close()
    runner = BoardRunner(config())
    try:
        first, again = runner.run([run, run._replace(beside=library)])
        assert first.failure is None and first.reference == pytest.approx(first.seconds, rel=1e-2)
        assert again.beside == pytest.approx(again.seconds, rel=1e-2)
        session = runner._benches[0].session
        assert session is not None and session._server is not None
        session._server.process.kill()
        assert runner.run([run])[0].failure == Failure.LOST
        assert runner.run([run])[0].failure is None
    finally:
        runner.close()


def addition() -> list[te.Tensor]:
    a = te.placeholder((64,), name="a")
    return [a, te.compute((64,), lambda i: a[i] + 1.0, name="b")]


def test_what_goes_wrong() -> None:
    task = autotvm.task.create("tests/micro/product", args=(16,), target=board(NAME).target("llvm"))
    runner, builder = (
        micro.MicroRunner(config(timeout=0.2, section_constraints={"heap": 3000})),
        micro.micro_builder(PATIENCE),
    )
    runner.set_task(task)
    builder.set_task(task, {})
    given = [autotvm.measure.MeasureInput(task.target, task, task.config_space.get(0))]
    refused = autotvm.measure.MeasureResult(("no",), MeasureErrorNo.COMPILE_HOST, 0.0, 0.0)
    try:
        results = runner.run(given * 2, [*builder.build(given), refused])
    finally:
        runner.close()
        builder.close()
    assert results[0].error_no == MeasureErrorNo.RUNTIME_DEVICE and "the section 'heap' has no" in str(
        results[0].costs[0]
    )
    assert results[1] is refused
    with pytest.raises(MicroError, match="QEMU's clock is that of this machine"):
        micro.MicroRunner(NAME)
    with pytest.raises(MicroError, match="has one board"):
        micro.MicroRunner(micro.generate_config(NAME, server_port=1), n_parallel=2)
