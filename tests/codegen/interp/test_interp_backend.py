"""The oracle as a back end: tensor programs and whole models by every executor, what it finds in them, libraries, threads."""

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
from tilewright import relay, runtime, te, tir
from tilewright.codegen.interp import InterpError
from tilewright.contrib import graph_executor
from tilewright.contrib.debugger.debug_executor import GraphModuleDebug
from tilewright.ir import IRModule
from tilewright.script import tir as T
from tilewright.support.errors import TVMError


def rows(n: Any = 4) -> tir.PrimFunc:
    a = te.placeholder((n, 3), name="a")
    return te.create_prim_func([a, te.compute((n, 3), lambda i, j: a[i, j] * 2.0, name="b")])


def network(seed: int = 0) -> tuple[IRModule, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w, x = rng.standard_normal((5, 4), dtype="float32"), rng.standard_normal((3, 4), dtype="float32")
    data = relay.var("x", shape=(3, 4))
    y = relay.nn.softmax(relay.nn.relu(relay.nn.dense(data, relay.const(w))))
    e = np.exp(np.maximum(x @ w.T, 0))
    return IRModule.from_expr(relay.Function([data], y)), x, e / e.sum(-1, keepdims=True)


def ran(library: Any, x: np.ndarray) -> np.ndarray:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=x)
    return executor.get_output(0).numpy()


def test_tensor_program_and_its_library(tmp_path: Path) -> None:
    x = np.arange(12, dtype="float32").reshape(4, 3)
    made = tvm.build(rows(), target="interp", name="twice")
    made.export_library(str(tmp_path / "f.so"))
    for module in (made, runtime.load_module(str(tmp_path / "f.so"))):
        out = tvm.nd.empty((4, 3))
        module["twice"](tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), 2 * x)
    assert made.type_key == "interp" and "def program(" in made.get_source()
    assert "T.block" in made.get_source("tir") and '"tir.Block"' in made.get_source("json")


def test_dynamic_dimensions_and_scalars() -> None:
    n = te.var("n")
    b = te.placeholder((n,), name="b", dtype="int64")
    k = te.var("k", "int64")
    func = te.create_prim_func([b, k, te.compute((n,), lambda i: b[i] * k, name="c")])
    made, out = tvm.build(func, target="interp"), tvm.nd.empty((5,), "int64")
    made(tvm.nd.array(np.arange(5)), 7, out)
    np.testing.assert_array_equal(out.numpy(), np.arange(5) * 7)


def test_a_function_returns_its_value_and_calls_others() -> None:
    @T.prim_func
    def main(n: T.int32) -> T.int32:
        T.func_attr({"global_symbol": "main"})
        T.ret(n * n + 1)

    assert tvm.build(main, target="interp")(6) == 37
    x = te.placeholder((3,), name="x")
    root = te.compute((3,), lambda i: tir.call_pure_extern("float32", "sqrtf", x[i]), name="root")
    out = tvm.nd.empty((3,))
    tvm.build(te.create_prim_func([x, root]), target="interp")(tvm.nd.array(np.array([1, 4, 9], "float32")), out)
    np.testing.assert_array_equal(out.numpy(), [1, 2, 3])
    missing = te.compute((3,), lambda i: tir.call_pure_extern("float32", "no_such_function", x[i]), name="y")
    with pytest.raises(InterpError, match="the C function 'no_such_function', which this process does not have"):
        tvm.build(te.create_prim_func([x, missing]), target="interp")(out, out)


@pytest.mark.parametrize("call", [lambda f, x: f(x), lambda f, x: f(tvm.nd.empty((4, 2)), x), lambda f, x: f(x, 3)])
def test_wrong_arguments_are_told_as_compiled_code_tells_them(call: Any) -> None:
    texts = []
    for target in ("llvm", "interp"):
        with pytest.raises((ValueError, TypeError)) as caught:
            call(tvm.build(rows(), target=target), tvm.nd.empty((4, 3)))
        texts.append((caught.type, str(caught.value)))
    assert texts[0] == texts[1]


def test_a_write_outside_is_named() -> None:
    @T.prim_func
    def main(x: T.Buffer((4, 3), "float32"), at: T.Buffer((4,), "int32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            x[i, at[i]] = T.float32(1)

    made, x = tvm.build(main, target="interp"), tvm.nd.array(np.zeros((4, 3), "float32"))
    made(x, tvm.nd.array(np.array([0, 2, 1, 0], "int32")))
    with pytest.raises(InterpError) as caught:
        # Beyond its row, and inside of the tensor: what no flat index shows.
        made(x, tvm.nd.array(np.array([0, 2, 3, 0], "int32")))
    assert str(caught.value).startswith("write out of bounds: buffer x[2, 3], shape (4, 3)\n  in function main, at i=2")


def test_a_race_is_named() -> None:
    @T.prim_func
    def main(x: T.Buffer((8,), "float32"), y: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in T.parallel(8):
            y[i // 2] = x[i]

    with pytest.raises(InterpError) as caught:
        tvm.build(main, target="interp")(tvm.nd.empty((8,)), tvm.nd.empty((4,)))
    text = "race: iterations 0 and 1 of parallel loop i both touch buffer y[0], one of them writing it"
    assert str(caught.value).startswith(text) and "in function main" in str(caught.value)


def test_what_was_never_written_is_named() -> None:
    @T.prim_func
    def main(y: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        t = T.alloc_buffer((4,))
        t[0] = T.float32(0)
        for i in range(4):
            y[i] = t[i]

    with pytest.raises(InterpError, match=r"uninitialised read: buffer t\[1\] was never written"):
        tvm.build(main, target="interp")(tvm.nd.empty((4,)))


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_model_and_its_library(executor: str, tmp_path: Path) -> None:
    mod, x, expected = network()
    library = relay.build(mod, "interp", executor=relay.backend.Executor(executor))
    for name in ("m.so", "m.tar"):
        library.export_library(str(tmp_path / name))
        np.testing.assert_allclose(ran(runtime.load_module(str(tmp_path / name)), x), expected, rtol=1e-5)
    np.testing.assert_allclose(ran(library, x), expected, rtol=1e-5)
    # The library finds its interpreter in a process that has loaded nothing else.
    np.save(tmp_path / "x.npy", x)
    text = f"""
import numpy as np, tilewright as tvm
from tilewright.contrib import graph_executor
run = graph_executor.GraphModule(tvm.runtime.load_module({str(tmp_path / "m.so")!r})["default"](tvm.cpu()))
run.run(x=np.load({str(tmp_path / "x.npy")!r}))
print(run.get_output(0).numpy().sum())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(3)


def test_debug_executor() -> None:
    mod, x, expected = network()
    with tvm.transform.PassContext(opt_level=0):
        library = relay.build(mod, "interp", executor=relay.backend.Executor("graph"))
    debug = GraphModuleDebug(library["debug_create"]("default", tvm.cpu()), [tvm.cpu()], library.get_graph_json())
    debug.run(x=x)
    np.testing.assert_allclose(debug.get_output(0).numpy(), expected, rtol=1e-5)
    debug.exit()


def test_virtual_machine(tmp_path: Path) -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    y = relay.concatenate([relay.nn.relu(x), relay.sum(x, axis=1, keepdims=True)], axis=1)
    mod = IRModule.from_expr(relay.Function([x], relay.If(relay.max(x) > relay.const(1.0), y, y + relay.const(1.0))))
    made = relay.vm.compile(mod, "interp")
    made.export_library(str(tmp_path / "p.so"))
    loaded = runtime.vm.Executable.load_exec(None, runtime.load_module(str(tmp_path / "p.so"))) if False else None
    del loaded
    for exe in (made, runtime.load_module(str(tmp_path / "p.so"))):
        machine = runtime.vm.VirtualMachine(exe, tvm.cpu())
        for n in (1, 4):
            value = np.linspace(-1, n, 3 * n, dtype="float32").reshape(n, 3)
            want = np.concatenate([np.maximum(value, 0), value.sum(1, keepdims=True)], 1) + float(value.max() <= 1)
            np.testing.assert_allclose(machine.invoke("main", tvm.nd.array(value)).numpy(), want, rtol=1e-5)


def test_forms_of_kernels(tmp_path: Path) -> None:
    library = relay.build(network()[0], "interp")
    name = library.metadata["kernels"][0]["name"]
    assert library.kernel_source(name).startswith("# ") and "def program(" in library.get_source()
    # No schedule, no packed layout: the operators' own definitions.
    assert library.kernel_source(name, "tir") == library.kernel_source(name, "te")
    assert "T.block" in library.kernel_source(name, "lowered")
    library.export_library(str(tmp_path / "m.py"))
    assert (tmp_path / "m.py").read_text() == library.get_source("py")


def test_errors_in_models_name_kernel_and_buffer() -> None:
    @tvm.register_func("test.refuses", override=True)
    def refuses(*tensors: Any) -> None:
        raise KeyError("not today")

    x = te.placeholder((3,), name="x")
    func = te.create_prim_func(
        [x, te.extern([(3,)], [x], lambda i, o: tir.call_packed("test.refuses", *i, *o), name="y", dtype="float32")]
    )
    with pytest.raises(KeyError, match="not today"):
        tvm.build(func, target="interp")(tvm.nd.empty((3,)), tvm.nd.empty((3,)))
    data, places = relay.var("x", shape=(4,)), relay.var("i", shape=(2,), dtype="int32")
    mod = IRModule.from_expr(relay.Function([data, places], relay.take(data, places, mode="fast")))
    executor = graph_executor.GraphModule(relay.build(mod, "interp")["default"](tvm.cpu()))
    with pytest.raises(
        InterpError,
        match=r"read out of bounds: buffer \w+\[9\], shape \(4\)\n  in function fused_take, at i0=1, v_i0=1$",
    ):
        executor.run(x=np.zeros(4, "float32"), i=np.array([1, 9], "int32"))
    executor.run(x=np.arange(4, dtype="float32"), i=np.array([1, 3], "int32"))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), [1, 3])


def test_threads_run_one_library() -> None:
    mod, x, expected = network()
    library, found, failed = relay.build(mod, "interp").lib, dict[int, np.ndarray](), list[BaseException]()

    def work(k: int) -> None:
        try:
            executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
            for _ in range(5):
                executor.run(x=x * 0 if k % 2 else x)
                found[k] = executor.get_output(0).numpy()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    for k, value in found.items():
        np.testing.assert_allclose(value, np.full((3, 5), 0.2) if k % 2 else expected, rtol=1e-5)


def test_code_lives_as_long_as_what_calls_it() -> None:
    mod, x, expected = network()
    run = relay.build(mod, "interp").lib["default"](tvm.cpu())
    gc.collect()
    executor = graph_executor.GraphModule(run)
    executor.run(x=x)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-5)


def test_what_cannot_be_is_refused_before_compiling() -> None:
    mod = network()[0]
    with pytest.raises(TVMError, match="^relay.build: targets of the kinds interp, llvm cannot be mixed"):
        relay.build(mod, {tvm.cpu(0): "llvm", tvm.cpu(1): "interp"})
    with pytest.raises(TVMError, match="build without the option system-lib"):
        relay.build(mod, "interp", runtime=relay.backend.Runtime("cpp", {"system-lib": True})).export_library("m.tar")
