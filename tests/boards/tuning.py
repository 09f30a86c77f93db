"""A network of one kernel, and the interfaces that tune it for a board: each leaves its records in a file of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tilewright as tvm
from tests.boards.boards import Board
from tests.boards.farm import Farm
from tilewright import auto_scheduler, autotvm, relay
from tilewright import meta_schedule as ms
from tilewright.target import Target

TIMEOUT = 60
DATA = np.random.default_rng(0).standard_normal((8, 64)).astype("float32")
WEIGHT = np.random.default_rng(1).standard_normal((32, 64)).astype("float32")


def network() -> tvm.IRModule:
    """relu(dense): one kernel."""
    data = relay.var("data", shape=DATA.shape)
    return tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(relay.nn.dense(data, relay.const(WEIGHT)))))


def model_file(folder: Path) -> Path:
    """The same as a model file."""
    nodes = [
        helper.make_node("Gemm", ["data", "weight"], ["product"], transB=1),
        helper.make_node("Relu", ["product"], ["result"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("data", (8, 64)), ("result", (8, 32)))]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:], [numpy_helper.from_array(WEIGHT, "weight")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "dense.onnx")
    return folder / "dense.onnx"


def built(target: Target, **config: Any) -> Any:
    """The network's library."""
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(network(), target)


def templates(found: Farm, board: Board, folder: Path, trials: int) -> Any:
    """AutoTVM: templates with knobs. The tuned library."""
    target, log = Target(board.target), folder / "templates.log"
    runner = autotvm.RPCRunner(board.name, *found.tracker, number=1, repeat=1, timeout=TIMEOUT, cooldown_interval=0)
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=TIMEOUT), runner=runner)
    task = autotvm.task.extract_from_program(network(), target=target, params={})[0]
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=trials, measure_option=option, callbacks=[autotvm.callback.log_to_file(str(log))])
    pairs = list(autotvm.record.load_from_file(str(log)))
    assert {str(given.target) for given, _ in pairs} == {str(target)}
    assert [result.error_no for _, result in pairs] == [0] * trials
    with autotvm.apply_history_best(str(log)):
        library = built(target)
    assert ["autotvm_template" in kernel["name"] for kernel in library.metadata["kernels"]] == [True]
    return library


def sketches(found: Farm, board: Board, folder: Path, trials: int) -> Any:
    """auto_scheduler: sketches with sampled tiles. The tuned library."""
    target, log = Target(board.target), folder / "sketches.json"
    runner = auto_scheduler.RPCRunner(board.name, *found.tracker, timeout=TIMEOUT, number=1, repeat=1, min_repeat_ms=1)
    tasks, weights = auto_scheduler.extract_tasks(network(), {}, target)
    tuner = auto_scheduler.TaskScheduler(tasks, weights, callbacks=[])
    told = [auto_scheduler.RecordToFile(str(log))]
    tuner.tune(
        auto_scheduler.TuningOptions(trials, num_measures_per_round=4, runner=runner, verbose=0, measure_callbacks=told)
    )
    pairs = list(auto_scheduler.load_records(str(log)))
    assert {str(given.task.target) for given, _ in pairs} == {str(target)}
    assert [result.error_no for _, result in pairs] == [0] * trials
    with auto_scheduler.ApplyHistoryBest(str(log)):
        return built(target, **{"relay.backend.use_auto_scheduler": True})


def traces(found: Farm, board: Board, folder: Path, trials: int) -> Any:
    """meta_schedule: traces of schedules by rules. The tuned library."""
    target = Target(board.target)
    config = ms.runner.RPCConfig(*found.tracker, board.name, session_timeout_sec=TIMEOUT)
    database = ms.relay_integration.tune_relay(
        network(), {}, target, str(folder), max_trials_global=trials, num_trials_per_iter=4, strategy="replay-trace",
        runner=ms.runner.RPCRunner(config, ms.runner.EvaluatorConfig(1, 1, 1)),
    )  # fmt: skip
    records = database.get_all_tuning_records()
    assert {str(record.target) for record in records} == {str(target)}
    assert [record.is_valid for record in records] == [True] * trials
    return ms.relay_integration.compile_relay(database, network(), target, {})
