"""Host operators: Python functions in the midst of compiled code, in both executors and in the interpreter."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.cards.card import find_card
from tilewright.runtime.host_functions.registry import host_function
from tilewright.support.errors import TVMError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@host_function("test.scaled_sum")
def _scaled_sum(config: Any, *arrays: np.ndarray) -> np.ndarray:
    return np.asarray(sum(arrays) * config["scale"])


@host_function("test.repeated")
def _repeated(config: Any, x: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.concatenate([x] * int(times))


def call(key: str, inputs: list[Any], **attrs: Any) -> Any:
    return find_card(key).call([inputs], attrs)


@pytest.mark.parametrize("kind", ["aot", "graph", "vm", "debug"])
def test_between_kernels(kind: str) -> None:
    x, y = (relay.var(n, shape=(2, 3)) for n in "xy")
    made = call("host.call", [x, y], function="test.scaled_sum", shape=(2, 3), config='{"scale": 2}')
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.add(made, x)))
    found = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(X, X)
    np.testing.assert_array_equal(found if isinstance(found, np.ndarray) else found.numpy(), 5 * X)


def test_a_shape_that_is_computed() -> None:
    x, times, shape = relay.var("x", shape=(2, 3)), relay.var("n", shape=(), dtype="int32"), None
    shape = relay.var("shape", shape=(2,), dtype="int64")
    made = call("host.call", [x, times], function="test.repeated", shape=shape)
    mod = tvm.IRModule.from_expr(relay.Function([x, times, shape], relay.negative(made)))
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for n in (1, 3):
        found = run(X, np.array(n, np.int32), np.array([2 * n, 3], np.int64)).numpy()
        np.testing.assert_array_equal(found, -np.concatenate([X] * n))


def test_what_it_answers_is_checked() -> None:
    x = relay.var("x", shape=(2, 3))
    for attrs, text in (
        ({"function": "test.scaled_sum", "shape": (3, 3), "config": '{"scale": 1}'}, "made a tensor of shape (2, 3)"),
        (
            {"function": "test.scaled_sum", "shape": (2, 3)},
            "the host function 'test.scaled_sum' fails: scale is missing",
        ),
        ({"function": "test.unknown", "shape": (3, 3)}, "this process has none of that name"),
    ):
        mod = tvm.IRModule.from_expr(relay.Function([x], call("host.call", [x], **attrs)))
        run = relay.create_executor("aot", mod, tvm.cpu(), "llvm").evaluate()
        with pytest.raises(TVMError) as info:
            run(X)
        assert text in str(info.value)


def test_names_belong_to_one_module() -> None:
    def other(config: Any, x: np.ndarray) -> np.ndarray:
        return x

    other.__module__ = "elsewhere"
    with pytest.raises(ValueError, match="'test.scaled_sum' of elsewhere has the name of one of"):
        host_function("test.scaled_sum")(other)
    # Determinants of ONNX and of PyTorch have different results.


OWN = """
from tilewright.runtime.host_functions.registry import host_function

@host_function("own.doubled")
def _doubled(config, x):
    return 2 * x
"""
LOADING = """
import sys
import numpy as np
import tilewright as tvm
from tilewright.contrib import graph_executor

run = graph_executor.GraphModule(tvm.runtime.load_module(sys.argv[1])["default"](tvm.cpu()))
run.set_input("x", np.arange(6, dtype="float32").reshape(2, 3))
run.run()
print(run.get_output(0).numpy().tolist())
"""


@pytest.mark.parametrize("kind", ["aot", "graph"])
def test_a_process_that_loads_a_library_imports_what_it_calls(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved libraries were refused by each process but the one that had compiled them."""
    (tmp_path / "own_functions.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("own_functions")
    x = relay.var("x", shape=(2, 3))
    made = call("host.call", [x], function="own.doubled", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(made, x)))
    relay.build(mod, "llvm", executor=relay.backend.Executor(kind)).export_library(tmp_path / "model.so")

    def loading(path: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *sys.path])}
        command = [sys.executable, "-c", LOADING, str(tmp_path / "model.so")]
        return subprocess.run(command, env=environment, cwd=tmp_path.parent, capture_output=True, text=True)

    there = loading(str(tmp_path))
    assert there.stdout == f"{(3 * X).tolist()}\n", there.stderr
    gone = [p for p in sys.path if p != str(tmp_path)]
    monkeypatch.setattr(sys, "path", gone)
    missing = loading("")
    assert missing.returncode == 1
    assert (
        "the program calls the host function 'own.doubled' of own_functions, which cannot be imported here:"
        " No module named 'own_functions'" in missing.stderr
    )
