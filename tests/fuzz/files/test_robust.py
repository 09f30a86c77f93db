"""Models that are damaged, degenerate or absurdly large; executors under threads, after a fork and after an interrupt."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.files.mutations import survey
from tests.fuzz.files.sweep import FORMATS, sweep, variants
from tests.fuzz.onnx.case import Draw, compare, compile_and_run, run, way_of
from tilewright import relay, runtime
from tilewright.support.errors import TVMError


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def info(name: str, shape: list[int]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


node = helper.make_node
W = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
FLAT = numpy_helper.from_array(np.array([1, 3]), "s")


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], *weights: Any) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


X, Y, Z = info("x", [3]), info("y", [3]), info("z", [3])
ODD = 'in "put"\n:0'
DEGENERATE = {
    "output is the input": model([], [X], [X]),
    "output is the input, and another": model([node("Relu", ["x"], ["y"])], [X], [X, Y]),
    "identity": model([node("Identity", ["x"], ["y"])], [X], [Y]),
    "output is a weight": model([], [X], [info("w", [3])], W),
    "no inputs": model([node("Constant", [], ["y"], value=W)], [], [Y]),
    "an output twice": model([node("Relu", ["x"], ["y"])], [X], [Y, Y]),
    "an output under two names": model([node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])], [X], [Y, Z]),
    "unused input": model([node("Relu", ["x"], ["y"])], [X, info("u", [5])], [Y]),
    "weight listed as input": model([node("Add", ["x", "w"], ["y"])], [X, info("w", [3])], [Y], W),
    "odd names": model([node("Relu", [ODD], ["é @1"], name='no de"\\')], [info(ODD, [3])], [info("é @1", [3])]),
    "only a view": model([node("Reshape", ["x", "s"], ["y"])], [X], [info("y", [1, 3])], FLAT),
    "view of an output": model(
        [node("Relu", ["x"], ["y"]), node("Reshape", ["y", "s"], ["z"])], [X], [Y, info("z", [1, 3])], FLAT
    ),
    "no elements": model([node("Relu", ["x"], ["y"])], [info("x", [0, 3])], [info("y", [0, 3])]),
    "scalar": model([node("Relu", ["x"], ["y"])], [info("x", [])], [info("y", [])]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graph(name: str) -> None:
    from onnx.reference import ReferenceEvaluator

    m = DEGENERATE[name]
    weights = {w.name for w in m.graph.initializer}
    inputs = {
        i.name: np.asarray(np.linspace(-1, 1, int(np.prod(shape))), "float32").reshape(shape)
        for i in m.graph.input
        if i.name not in weights
        for shape in [[d.dim_value for d in i.type.tensor_type.shape.dim]]
    }
    want = ReferenceEvaluator(m).run(None, inputs)
    for seed in (0, 2):  # in process, and from a library on disk
        compare(compile_and_run(m, inputs, way_of(seed)), want)


TWICE = model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], [X], [Y])
HUGE, HUGER = [
    model([node("Relu", ["x"], ["y"])], [info("x", [n, n])], [info("y", [n, n])]) for n in (1 << 29, 1 << 31)
]
MADE = model(
    [node("ConstantOfShape", ["n"], ["h"]), node("Add", ["h", "x"], ["y"])],
    [X], [Y], numpy_helper.from_array(np.array([1 << 46]), "n"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (model([], [], []), "the graph has no outputs"),
        (model([node("Relu", ["x"], ["y"])], [X, X], [Y]), "two inputs have the name 'x'"),
        (TWICE, "Neg 'y' makes the tensor 'y' again, which is there already"),
        (model([node("Relu", ["y"], ["y"])], [X], [Y]), "reads the tensor 'y', which no node before it makes"),
        (HUGE, "has 1152921504606846976 bytes, more than any machine can address"),
        (HUGER, "the input 'x': the dimensions of a tensor must have a product below 2"),
        (MADE, "shapes must broadcast: .* but dimension -1 is 70368744177664"),
    ],
)
def test_broken_graph_is_refused(broken: Any, text: str) -> None:
    with pytest.raises(TVMError, match=text):
        mod, params = relay.frontend.from_onnx(broken)
        relay.build(mod, "llvm", params=params)


def test_mutated_files() -> None:
    """34 damaged files, two of each kind; `python -m tests.fuzz.files.mutations --count 500` does more."""
    counts, problems = survey(0, 34, whole=False)
    assert problems == []
    assert counts["refused"] > 10 and counts["right"]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_swept_files(name: str) -> None:
    """A few of the variants that `python -m tests.fuzz.files.sweep` goes through."""
    found = list(variants(name, whole=False))
    assert sweep(found[:: len(found) // 20], FORMATS[name][1]) == []


def convolutions() -> Draw:
    d = Draw(3, 17)
    y = d.node("Relu", [d.node("Conv", [d.data([1, 16, 48, 48]), d.weight([32, 16, 3, 3], scale=0.1)], pads=[1] * 4)])
    d.node("Softmax", [d.node("Conv", [y, d.weight([16, 32, 3, 3], scale=0.1)], pads=[1] * 4)], axis=1)
    return d


@pytest.fixture(scope="module")
def library() -> Any:
    return relay.build(relay.frontend.from_onnx(convolutions().model())[0], "llvm")


def repeat(executor: Any, x: np.ndarray, results: list[Any], count: int) -> None:
    for _ in range(count):
        try:
            executor["set_input"]("t1", runtime.array(x))
            executor["run"]()
            results.append(executor["get_output"](0).numpy().copy())
        except Exception as error:
            results.append(error)


def test_two_executors_in_two_threads(library: Any) -> None:
    x = convolutions().inputs["t1"]
    inputs = [x, x * np.float32(0.5)]
    wanted = [run(library, {"t1": v})[0] for v in inputs]
    results: list[list[Any]] = [[], []]
    threads = [
        threading.Thread(target=repeat, args=(library["default"](runtime.cpu(0)), inputs[k], results[k], 30))
        for k in range(2)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(2):
        for got in results[k]:
            np.testing.assert_array_equal(got, wanted[k])


def test_one_executor_in_two_threads(library: Any) -> None:
    """Either works, or says that the executor is in use; never a mixture of two runs."""
    x = convolutions().inputs["t1"]
    wanted = run(library, {"t1": x})[0]
    executor = library["default"](runtime.cpu(0))
    executor["set_input"]("t1", runtime.array(x))
    refusals: list[str] = []

    def runs() -> None:
        for _ in range(60):
            try:
                executor["run"]()
            except Exception as error:
                refusals.append(str(error))

    threads = [threading.Thread(target=runs) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all("the executor is in use by another thread: make one for each thread" in text for text in refusals)
    executor["run"]()
    np.testing.assert_array_equal(executor["get_output"](0).numpy(), wanted)


def in_child(work: Any) -> int:
    """The exit status of a forked process that does the work; killed after 60 s."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def test_fork_after_a_run(library: Any) -> None:
    x = convolutions().inputs["t1"]
    executor = library["default"](runtime.cpu(0))
    results: list[Any] = []
    repeat(executor, x, results, 2)

    def work() -> None:
        again: list[Any] = []
        repeat(executor, x, again, 2)
        np.testing.assert_array_equal(again[0], results[0])
        np.testing.assert_array_equal(run(library, {"t1": x})[0], results[0])

    assert in_child(work) == 0
    repeat(executor, x, results, 1)
    np.testing.assert_array_equal(results[2], results[0])


def test_interrupted_build_leaves_a_sound_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    d = convolutions()
    mod = relay.frontend.from_onnx(d.model())[0]

    def work(after: float) -> None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            relay.build(mod, "llvm")
        except KeyboardInterrupt:
            return

    for k in range(8):
        assert in_child(lambda k=k: work(0.02 * (k + 1))) == 0
    want = compile_and_run(d.model(), d.inputs, way_of(0))
    compare(compile_and_run(d.model(), d.inputs, way_of(0)), want)
    left = [p.name for p in tmp_path.rglob("*") if p.name.startswith(".new")]
    assert left == []
