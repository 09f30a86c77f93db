"""Constants that external code receives, and libraries over time: threads, several openings, hosts without Python."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_byoc.helpers import (
    DATA,
    KINDS,
    RELU,
    assert_same,
    c_module,
    evaluate,
    interpreted,
    load_saved,
    partitioned,
    registered,
    relu_parts,
    saved,
    taking,
)
from tests.relay_vm.native import run_in_host
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.backend.byoc.c_codegen import CSourceCodegen
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import TVMError


def test_constants_are_handed_over_once(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 3))
    large = relay.const(np.float32(np.arange(6).reshape(2, 3)))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.add(relay.add(x, large), relay.const(1.0)))))
    calls: list[Any] = []

    def generate(func: relay.Function) -> tvm.runtime.Module:
        symbol = str(func.attrs["global_symbol"])
        kept: list[np.ndarray] = []

        def init(constants: list[Any]) -> int:
            calls.append([c.shape for c in constants])
            kept.extend([c.numpy() for c in constants])
            return 0

        def run(read: Any, written: Any) -> None:
            written.copyfrom(read.numpy() + kept[0] + kept[1])

        functions = {
            symbol: run,
            f"__init_{symbol}": init,
            "get_const_vars": lambda: [f"{symbol}_const_1", f"{symbol}_const_0"],
        }
        return tvm.runtime.Module.from_functions(functions, "a")

    with taking("a", ["add"]), registered(a=generate):
        parts = partitioned(mod, ["a"])
        lib = relay.build(parts, "llvm")
        for _ in range(2):
            executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
            for _ in range(2):
                executor.run(x=DATA)
                assert_same([executor.get_output(0).numpy()], [np.exp(DATA + large.data + 1)])
    assert calls == [[(), (2, 3)]], "once, in the order that the module names them in"


def test_a_constant_updater(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.add(x, relay.const(DATA)))))
    code = """
static const float* table;
TW_PACKED_FUNC(__init_SYMBOL) { table = tw_data(tw_list_item(&args[0], 0)); return 0; }
TW_PACKED_FUNC(SYMBOL) {
  for (int i = 0; i < 6; ++i) TW_DATA(float, 1)[i] = TW_DATA(float, 0)[i] + 10 * table[i];
  return 0;
}
"""

    def updater(func: relay.Function, symbol: str) -> dict[str, Any]:
        return {"packed": tvm.nd.array(func.body.args[1].data.numpy() / 10)}

    with taking("a", ["add"]):
        parts = partitioned(mod, ["a"])
    with registered(a=c_module(code, ["packed"]), a__constant_updater=updater):
        exe = relay.vm.compile(parts, "llvm")
    path = exe.export_library(str(tmp_path / "m.so"))
    for program in (exe, tvm.runtime.load_module(path)):
        assert_same([VirtualMachine(program, tvm.cpu()).run(DATA).numpy()], [np.exp(2 * DATA)])
    with registered(a=c_module(code, ["packed"])), pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    symbol = "tvmgen_default_a_main_0"
    assert str(caught.value) == (
        f"the code of {symbol} asks for the constant packed, but there are {symbol}_const_0; relay.ext.a.constant_updater, a"
        " function of the relay function and its symbol, may return them by name"
    )
    with (
        registered(a=c_module(code, ["packed"]), a__constant_updater=lambda f, s: [1]),
        pytest.raises(
            TVMError, match="relay.ext.a.constant_updater must return a dict from names to tensors, but returned list"
        ),
    ):
        relay.build(parts, "llvm")
    refusing = c_module(code.replace("return 0", "return 7", 1), ["SYMBOL_const_0"])
    with registered(a=refusing), pytest.raises(RuntimeError, match="a function failed with code 7 and left no reason"):
        evaluate(parts, DATA, kind="graph")
    symbol = "tvmgen_default_a_main_0"
    functions = {
        symbol: print,
        f"__init_{symbol}": lambda constants: 3,
        "get_const_vars": lambda: [f"{symbol}_const_0"],
    }
    refused = f"`__init_{symbol}` refused its constants with code 3"
    with (
        registered(a=lambda f: tvm.runtime.Module.from_functions(functions, "a")),
        pytest.raises(RuntimeError, match=refused),
    ):
        evaluate(parts, DATA, kind="graph")


def test_constants_go_with_every_way_of_writing_the_library(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.add(x, relay.const(DATA)))))
    code = """
static const float* table;
TW_PACKED_FUNC(__init_SYMBOL) { table = tw_data(tw_list_item(&args[0], 0)); return 0; }
TW_PACKED_FUNC(SYMBOL) {
  for (int i = 0; i < 6; ++i) TW_DATA(float, 1)[i] = TW_DATA(float, 0)[i] + table[i];
  return 0;
}
"""
    with taking("a", ["add"]), registered(a=c_module(code, ["SYMBOL_const_0"])):
        graph, lib, params = relay.build(partitioned(mod, ["a"]), "llvm")
        whole = relay.build(partitioned(mod, ["a"]), "llvm")
    path = lib.export_library(str(tmp_path / "kernels.so"))
    executor = graph_executor.create(graph, tvm.runtime.load_module(path), tvm.cpu())
    executor.set_input(**params)
    executor.run(x=DATA)
    assert_same([executor.get_output(0).numpy()], [np.exp(2 * DATA)])
    path = whole.lib.export_library(str(tmp_path / "whole.tar"))
    executor = graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](tvm.cpu()))
    executor.run(x=DATA)
    assert_same([executor.get_output(0).numpy()], [np.exp(2 * DATA)])


def test_constants_as_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.add(x, relay.const(DATA)))))
    with taking("a", ["add"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"], bind_constants=False)
        for kind in KINDS:
            assert_same(evaluate(parts, DATA, kind=kind), [np.exp(2 * DATA)])


def test_executors_outlive_what_they_were_made_from() -> None:
    with registered(a=c_module(RELU)):
        lib = relay.build(relu_parts(), "llvm")
        graph, kernels, params = lib
        executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        other = graph_executor.create(graph, kernels, tvm.cpu())
        del lib, kernels
        gc.collect()
        want = [np.exp(np.maximum(DATA, 0))]
        executor.run(x=DATA)
        assert_same([executor.get_output(0).numpy()], want)
        del executor
        gc.collect()
        other.run(x=DATA)
        assert_same([other.get_output(0).numpy()], want)


def test_a_library_that_is_opened_twice(tmp_path: Path) -> None:
    with registered(a=saved):
        path = relay.build(relu_parts(), "llvm").export_library(str(tmp_path / "m.so"))
    tvm.register_func("runtime.module.loadbinary_saved", load_saved)
    try:
        first, second = tvm.runtime.load_module(path), tvm.runtime.load_module(path)
    finally:
        tvm.runtime.remove_global_func("runtime.module.loadbinary_saved")
    executor = graph_executor.GraphModule(first["default"](tvm.cpu()))
    del second
    gc.collect()
    executor.run(x=DATA)
    assert_same([executor.get_output(0).numpy()], [np.exp(np.maximum(DATA, 0))])


def test_several_threads() -> None:
    with registered(a=interpreted):
        lib = relay.build(relu_parts(), "llvm")
    found: list[Any] = list(range(4))

    def work(k: int) -> None:
        executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        for i in range(20):
            executor.run(x=DATA + k * i / 50)
            assert_same([executor.get_output(0).numpy()], [np.exp(np.maximum(DATA + k * i / 50, 0))])
        found.remove(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not found


def test_a_host_without_python(tmp_path: Path) -> None:
    """C kernels and their constants, in a program that has never heard of Python."""
    rng = np.random.default_rng(0)
    weight = rng.random((16, 24), "float32")
    x = relay.var("x", shape=(2, 24))
    mod = relay.IRModule.from_expr(
        relay.Function([x], relay.exp(relay.nn.dense(x, relay.const(weight)) * relay.const(0.1)))
    )

    def dense(call: Any, data: Any, weight: Any, out: Any) -> str:
        (n, k), m = data.shape, out.shape[1]
        return f"""
        for (int i = 0; i < {n}; ++i)
          for (int j = 0; j < {m}; ++j) {{
            out[i * {m} + j] = 0;
            for (int k = 0; k < {k}; ++k) out[i * {m} + j] += data[i * {k} + k] * weight[j * {k} + k];
          }}
        """

    generator = CSourceCodegen("c_host", {"nn.dense": dense})
    generator.register()
    path = tmp_path / "program.so"
    relay.vm.compile(partitioned(mod, ["c_host"]), "llvm").export_library(str(path))
    data = rng.random((2, 24), "float32")
    got = run_in_host(path, [tvm.nd.array(data)], tmp_path)
    np.testing.assert_allclose(got, np.exp(data @ weight.T * np.float32(0.1)), rtol=1e-4)


def test_a_library_that_registers_itself(tmp_path: Path) -> None:
    """Linked into a program, the system library has the model, its external code and what that receives."""
    x = relay.var("x", shape=(2, 3))
    body = relay.nn.relu(relay.exp(relay.add(x, relay.const(DATA))))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.tanh(body)))
    code = """
static const float* table;
TW_PACKED_FUNC(__init_SYMBOL) { table = tw_data(tw_list_item(&args[0], 0)); return 0; }
TW_PACKED_FUNC(SYMBOL) {
  for (int i = 0; i < 6; ++i) TW_DATA(float, 1)[i] = TW_DATA(float, 0)[i] + table[i];
  return 0;
}
"""
    functions = {"a": c_module(code, ["SYMBOL_const_0"]), "b": saved}
    with taking("a", ["add"]), taking("b", ["nn.relu"]), registered(**functions):
        parts = partitioned(mod, ["a", "b"])
        lib = relay.build(parts, "llvm", runtime=relay.backend.Runtime("cpp", {"system-lib": True}))
    path = lib.export_library(str(tmp_path / "m.so"))
    program = (
        "import numpy as np, tilewright as tvm\n"
        "from tilewright import runtime\n"
        "from tests.relay_byoc.helpers import load_saved, DATA\n"
        "tvm.register_func('runtime.module.loadbinary_saved', load_saved)\n"
        f"held = runtime.load_module({path!r})\n"
        "m = runtime.system_lib()['default'](runtime.cpu(0))\n"
        "m['set_input']('x', runtime.array(DATA))\n"
        "m['run']()\n"
        "np.testing.assert_allclose(m['get_output'](0).numpy(), np.tanh(np.exp(2 * DATA)), rtol=1e-5)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
