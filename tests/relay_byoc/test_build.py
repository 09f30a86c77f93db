"""Code of external generators in every executor: in this process, in libraries, in a host without Python."""

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
from tests.relay.random_graphs import Generator
from tests.relay_byoc.helpers import (
    OPERATORS,
    assert_same,
    evaluate,
    external,
    interpreted,
    partitioned,
    registered,
    taking,
    unpacked,
)
from tests.relay_vm.native import run_in_host
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.backend.c_codegen import CSourceCodegen
from tilewright.relay.dataflow_pattern import is_constant, is_op, wildcard
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import TVMError

DATA = np.float32(np.arange(6).reshape(2, 3)) - 3
KINDS = ("graph", "aot", "vm")


def relu_exp() -> relay.IRModule:
    x = relay.var("x", shape=(2, 3))
    return relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(x))))


def c_module(body: str, const_vars: Any = ()) -> Any:
    """A generator of C source, SYMBOL in it replaced."""

    def generate(func: relay.Function) -> tvm.runtime.Module:
        symbol = str(func.attrs["global_symbol"])
        text = "#include <tilewright/packed.h>\n" + body.replace("SYMBOL", symbol)
        return tvm.runtime.c_source_module(text, "c", [symbol], [c.replace("SYMBOL", symbol) for c in const_vars])

    return generate


RELU = """
TW_PACKED_FUNC(SYMBOL) {
  TW_EXPECT_ARGS(2);
  const float* x = TW_DATA(float, 0);
  float* y = TW_DATA(float, 1);
  for (int i = 0; i < 6; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return 0;
}
"""


def relu_parts() -> relay.IRModule:
    with taking("a", ["nn.relu"]):
        return partitioned(relu_exp(), ["a"])


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_in_all_executors(seed: int) -> None:
    generator, rng = Generator(seed, 12), np.random.default_rng(seed)
    mod, inputs = generator.module(), generator.inputs()
    want = evaluate(mod, *inputs)
    chosen = [list(rng.choice([o for o in OPERATORS if o != "zeros"], n, replace=False)) for n in (10, 8)]
    table = [("a.conv_relu", is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), is_constant())))]
    with taking("a", chosen[0]), taking("b", chosen[1]), registered(a=interpreted, b=interpreted):
        parts = partitioned(mod, ["a", "b"], table, bool(seed % 2), bool(seed % 3), bool(seed % 4))
        for kind in KINDS:
            assert_same(evaluate(parts, *inputs, kind=kind), want)


@pytest.mark.parametrize("kind", KINDS)
def test_c_source_in_this_process(kind: str) -> None:
    with registered(a=c_module(RELU)):
        assert_same(evaluate(relu_parts(), DATA, kind=kind), [np.exp(np.maximum(DATA, 0))])


def test_c_source_in_a_library(tmp_path: Path) -> None:
    with registered(a=c_module(RELU)):
        lib = relay.build(relu_parts(), "llvm")
    (module,) = lib.lib.imported_modules
    assert module.type_key == "c" and "TW_PACKED_FUNC(tvmgen_default_a_main_0)" in module.get_source()
    assert module["get_symbol"]() == "tvmgen_default_a_main_0"
    for name in ("model.so", "model.tar"):
        path = lib.export_library(str(tmp_path / name))
        executor = graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](tvm.cpu()))
        executor.run(x=DATA)
        assert_same([executor.get_output(0).numpy()], [np.exp(np.maximum(DATA, 0))])
    with pytest.raises(TVMError, match=r"generated C source does not compile: \S+ says\n.*unknown"):
        lib.export_library(str(tmp_path / "model.so"), options=["--unknown-flag"])
    lib.export_library(str(tmp_path / "flags.so"), options=["-O1", "-Wl,--build-id=none"])
    seen: list[Any] = []
    lib.export_library(
        str(tmp_path / "own.so"), fcompile=lambda path, files, **kw: seen.append((files, kw)), options=["-O1"]
    )
    assert len(seen) == 1 and len(seen[0][0]) >= 3 and seen[0][1] == {"options": ["-O1"]}


def test_parts_of_the_graph_executor(tmp_path: Path) -> None:
    with registered(a=c_module(RELU)):
        graph, lib, params = relay.build(relu_parts(), "llvm")
        path = lib.export_library(str(tmp_path / "kernels.so"))
    for library in (lib, tvm.runtime.load_module(path)):
        executor = graph_executor.create(graph, library, tvm.cpu())
        executor.set_input(**params)
        executor.run(x=DATA)
        assert_same([executor.get_output(0).numpy()], [np.exp(np.maximum(DATA, 0))])


def test_compiled_for_another_machine(tmp_path: Path) -> None:
    with registered(a=c_module(RELU)):
        lib = relay.build(relu_parts(), "llvm -mtriple=aarch64-linux-gnu")
    path = tmp_path / "arm.tar"
    lib.export_library(str(path))
    assert path.stat().st_size > 1000


def test_classic_cpp_source(tmp_path: Path) -> None:
    """What a generator for classic TVM writes, constants included."""

    def generate(func: relay.Function) -> tvm.runtime.Module:
        symbol = str(func.attrs["global_symbol"])
        code = """
#include <cstring>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <dlpack/dlpack.h>
using namespace tvm::runtime;
Array<NDArray> SYMBOL_consts;
void SYMBOL_(float* in, float* other, float* out) {
  for (int64_t i = 0; i < 6; ++i) out[i] = in[i] + other[i];
}
extern "C" int SYMBOL_wrapper_(DLTensor* arg0, DLTensor* ret0) {
  SYMBOL_(static_cast<float*>(arg0->data), static_cast<float*>(SYMBOL_consts[0]->data), static_cast<float*>(ret0->data));
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(SYMBOL, SYMBOL_wrapper_);
int SYMBOL_init_wrapper_(Array<NDArray> arr) {
  SYMBOL_consts = arr;
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(__init_SYMBOL, SYMBOL_init_wrapper_);
"""
        create = tvm.get_global_func("runtime.CSourceModuleCreate")
        return create(code.replace("SYMBOL", symbol), "cc", [symbol], [f"{symbol}_const_0"])

    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.add(x, relay.const(DATA)))))
    with taking("a", ["add"]), registered(a=generate):
        parts = partitioned(mod, ["a"])
        for kind in KINDS:
            assert_same(evaluate(parts, DATA, kind=kind), [np.exp(2 * DATA)])
        path = relay.build(parts, "llvm").export_library(str(tmp_path / "model.so"), options=["-O2", "-std=c++17"])
    loaded = tvm.runtime.load_module(path)
    executor = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    executor.run(x=DATA)
    assert_same([executor.get_output(0).numpy()], [np.exp(2 * DATA)])


def test_c_source_of_the_older_calling_convention() -> None:
    code = """
#include <tvm/runtime/c_runtime_api.h>
TVM_DLL int32_t SYMBOL(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code) {
  DLTensor* x = (DLTensor*)(((TVMValue*)args)[0].v_handle);
  DLTensor* y = (DLTensor*)(((TVMValue*)args)[1].v_handle);
  if (num_args != 2 || type_code[1] != kTVMDLTensorHandle) return -1;
  for (int i = 0; i < x->shape[0] * x->shape[1]; ++i) ((float*)y->data)[i] = ((float*)x->data)[i] > 0 ? ((float*)x->data)[i] : 0;
  return 0;
}
"""
    with registered(a=c_module(code)):
        assert_same(evaluate(relu_parts(), DATA, kind="graph"), [np.exp(np.maximum(DATA, 0))])


def test_the_code_generator_that_is_there(tmp_path: Path) -> None:
    shapes = [(2, 3), (3,), (2, 1), (1, 1), ()]
    params = [relay.var(f"x{i}", shape=s) for i, s in enumerate(shapes)]
    a, b, c, d, e = params
    body = relay.multiply(relay.subtract(relay.add(a, b), relay.multiply(c, d)), relay.add(e, relay.const(0.5)))
    mod = relay.IRModule.from_expr(relay.Function(params, relay.Tuple([body, relay.exp(body), a])))
    values = [np.float32(np.random.default_rng(i).standard_normal(s)) for i, s in enumerate(shapes)]
    with taking("ccompiler", ["add", "subtract", "multiply"]):
        parts = partitioned(mod, ["ccompiler"])
    assert len(external(parts)) == 1
    for kind in KINDS:
        assert_same(evaluate(parts, *values, kind=kind), evaluate(mod, *values))


# ---- modules that are no source


def saved(func: relay.Function) -> tvm.runtime.Module:
    """A module of Python that a library holds as relay text."""
    return held(func, tvm.ir.save_json(func).encode())


def held(func: relay.Function, data: bytes) -> tvm.runtime.Module:
    inner = interpreted(func)
    symbol = str(func.attrs["global_symbol"])
    return tvm.runtime.Module.from_functions({symbol: inner[symbol]}, "saved", save=lambda: data)


def load_saved(data: bytes) -> tvm.runtime.Module:
    func = tvm.ir.load_json(data.decode())
    mod = relay.transform.InferType()(relay.IRModule.from_expr(func.replace(attrs={})))
    return held(mod["main"].replace(attrs=func.attrs), data)


def test_modules_of_python_in_a_library(tmp_path: Path) -> None:
    parts = relu_parts()
    with registered(a=saved):
        lib, exe = relay.build(parts, "llvm"), relay.vm.compile(parts, "llvm")
    paths = [lib.export_library(str(tmp_path / "m.so")), exe.export_library(str(tmp_path / "vm.so"))]
    with pytest.raises(
        ValueError, match="the library holds a module of kind `saved`, but nothing here can load it: import the"
    ):
        tvm.runtime.load_module(paths[0])
    tvm.register_func("runtime.module.loadbinary_saved", load_saved)
    try:
        model, program = (tvm.runtime.load_module(p) for p in paths)
    finally:
        tvm.runtime.remove_global_func("runtime.module.loadbinary_saved")
    assert [m.type_key for m in model.imported_modules] == ["saved"]
    executor = graph_executor.GraphModule(model["default"](tvm.cpu()))
    executor.run(x=DATA)
    want = [np.exp(np.maximum(DATA, 0))]
    assert_same([executor.get_output(0).numpy()], want)
    assert_same([VirtualMachine(program, tvm.cpu()).run(DATA).numpy()], want)


def test_modules_that_cannot_be_saved(tmp_path: Path) -> None:
    with registered(a=interpreted):
        lib = relay.build(relu_parts(), "llvm")
    with pytest.raises(ValueError) as caught:
        lib.export_library(str(tmp_path / "m.so"))
    assert str(caught.value) == (
        "a module of kind `interpreted` holds no objects to export; export the module that was built. Functions of Python are"
        " exported by from_functions(..., save=...), where something can make them again from bytes"
    )


def test_a_module_that_was_built(tmp_path: Path) -> None:
    """tvm.build of a tensor program is a code generator as well; its object is linked into the library."""

    def generate(func: relay.Function) -> tvm.runtime.Module:
        a = tvm.te.placeholder((2, 3), name="a")
        b = tvm.te.compute((2, 3), lambda i, j: tvm.te.max(a[i, j], tvm.tir.const(0, "float32")), name="b")
        prim = tvm.te.create_prim_func([a, b]).with_attr("global_symbol", func.attrs["global_symbol"])
        return tvm.build(prim, target="llvm")

    with registered(a=generate):
        lib = relay.build(relu_parts(), "llvm")
    want = [np.exp(np.maximum(DATA, 0))]
    path = lib.export_library(str(tmp_path / "m.so"))
    for library in (lib, tvm.runtime.load_module(path)):
        executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
        executor.run(x=DATA)
        assert_same([executor.get_output(0).numpy()], want)


def test_errors_of_external_code_reach_the_caller() -> None:
    class OutOfInk(ValueError):
        pass

    def generate(func: relay.Function) -> tvm.runtime.Module:
        def run(*tensors: Any) -> None:
            raise OutOfInk("page 3")

        return tvm.runtime.Module.from_functions({str(func.attrs["global_symbol"]): run}, "a")

    with registered(a=generate):
        for kind in KINDS:
            with pytest.raises(OutOfInk, match="page 3"):
                evaluate(relu_parts(), DATA, kind=kind)
    telling = c_module('TW_PACKED_FUNC(SYMBOL) { return tw_error("ValueError", "no ink"); }')
    with registered(a=telling), pytest.raises(ValueError, match="no ink"):
        evaluate(relu_parts(), DATA, kind="graph")


# ---- constants


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
        " function of the relay function and its symbol, may answer them by name"
    )
    with (
        registered(a=c_module(code, ["packed"]), a__constant_updater=lambda f, s: [1]),
        pytest.raises(
            TVMError, match="relay.ext.a.constant_updater must answer a dict from names to tensors, but answered list"
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


# ---- programs


def loop() -> relay.IRModule:
    """Adds relu(x) to a sum until it is large; the way out is in the middle."""
    mod = relay.IRModule()
    go = relay.GlobalVar("go")
    i, x, s = relay.var("i", shape=(), dtype="int32"), relay.var("x", shape=(2, 3)), relay.var("s", shape=(2, 3))
    grown = relay.add(relay.nn.relu(x), s)
    again = relay.Call(go, [relay.add(i, relay.const(1)), relay.tanh(x), grown])
    body = relay.If(relay.less(i, relay.const(3)), again, relay.multiply(grown, relay.exp(s)))
    mod[go] = relay.Function([i, x, s], body, relay.TensorType((2, 3)))
    y = relay.var("y", shape=(2, 3))
    mod["main"] = relay.Function([y], relay.Call(go, [relay.const(0), relay.abs(y), y]))
    return mod


def test_regions_in_loops_and_branches(tmp_path: Path) -> None:
    mod = loop()
    with taking("a", ["add", "nn.relu", "abs", "multiply", "exp"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"])
        assert {name.split("_a_")[1][:-2] for name in external(parts)} == {"go", "main"}
        assert_same(evaluate(parts, DATA), evaluate(mod, DATA))
        assert_same(evaluate(parts, DATA, kind="vm"), evaluate(mod, DATA))


def test_regions_in_closures_and_matches() -> None:
    mod = tvm.IRModule.from_expr(relay.const(0))
    prelude = relay.Prelude(mod)
    x, v, captured = relay.var("x", shape=(2, 3)), relay.var("v", shape=(2, 3)), relay.var("captured")
    _, cons, nil = mod.get_type("List")
    values = relay.Call(cons, [x, relay.Call(cons, [relay.exp(x), relay.Call(nil, [])])])
    function = relay.Function([v], relay.add(relay.nn.relu(v), captured))
    mapped = relay.Call(prelude.map, [function, values])
    p, q = relay.var("p", shape=(2, 3)), relay.var("q", shape=(2, 3))
    total = relay.Call(prelude.foldl, [relay.Function([p, q], relay.add(p, q)), x, mapped])
    mod["main"] = relay.Function([x], relay.Let(captured, relay.tanh(x), total))
    want = evaluate(mod, DATA)
    with taking("a", ["add", "nn.relu", "exp", "tanh"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"])
        assert len(external(parts)) >= 4
        assert_same(evaluate(parts, DATA), want)
        assert_same(evaluate(parts, DATA, kind="vm"), want)


def test_sizes_known_only_at_run_time() -> None:
    n = relay.Any()
    x = relay.var("x", shape=(n, 4))
    w = relay.const(np.float32(np.random.default_rng(0).random((5, 4))))
    y = relay.nn.relu(relay.nn.dense(x, w))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(y), relay.nn.softmax(relay.tanh(y))])))
    with taking("a", ["nn.dense", "nn.relu", "nn.softmax"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"])
        vm = VirtualMachine(relay.vm.compile(parts, "llvm"), tvm.cpu())
    for size in (1, 3, 7):
        data = np.float32(np.random.default_rng(size).standard_normal((size, 4)))
        assert_same(unpacked(vm.run(data)), evaluate(mod, data))


def test_results_that_are_tuples_in_tuples() -> None:
    x = relay.var("x", shape=(2, 4))
    r = relay.nn.relu(x)
    halves = relay.split(r, 2, axis=1)
    mod = relay.IRModule.from_expr(
        relay.Function([x], relay.Tuple([relay.exp(halves[1]), r, halves[0], relay.tanh(r)]))
    )
    data = np.float32(np.arange(8).reshape(2, 4)) - 4
    with taking("a", ["nn.relu", "split"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"], non_call_ops=False)
        (function,) = external(parts).values()
        assert any([isinstance(f, relay.TupleType) for f in function.ret_type.fields])
        for kind in ("debug", *KINDS):
            assert_same(evaluate(parts, data, kind=kind), evaluate(mod, data))


def test_tuples_as_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    body = relay.concatenate([relay.exp(x), relay.tanh(x), x], axis=0)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([body, relay.nn.relu(body)])))
    with taking("a", ["concatenate", "nn.relu"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"], non_call_ops=False)
        (function,) = external(parts).values()
        assert isinstance(function.params[0].checked_type, relay.TupleType)
        for kind in KINDS:
            assert_same(evaluate(parts, DATA, kind=kind), evaluate(mod, DATA))


def test_external_functions_as_values() -> None:
    """A function that a program hands on, not only calls."""
    x, f = (
        relay.var("x", shape=(2, 3)),
        relay.var("f", relay.FuncType([relay.TensorType((2, 3))], relay.TensorType((2, 3)))),
    )
    parts = relu_parts()
    gvar = parts.get_global_var("tvmgen_default_a_main_0")
    parts["main"] = relay.Function([x], relay.Let(f, gvar, relay.exp(relay.Call(f, [relay.Call(f, [x])]))))
    with registered(a=interpreted):
        assert_same(evaluate(parts, DATA, kind="vm"), [np.exp(np.maximum(DATA, 0))])


def test_composites_that_nobody_takes_are_compiled() -> None:
    table = [("a.relu_exp", is_op("exp")(is_op("nn.relu")(wildcard())))]
    mod = relay.transform.MergeComposite(table)(relu_exp())
    for kind in KINDS:
        assert_same(evaluate(mod, DATA, kind=kind), [np.exp(np.maximum(DATA, 0))])


def test_what_reads_one_result_several_times_calls_once() -> None:
    calls: list[int] = []

    def generate(func: relay.Function) -> tvm.runtime.Module:
        symbol = str(func.attrs["global_symbol"])
        inner = interpreted(func)

        def run(*tensors: Any) -> None:
            calls.append(1)
            inner[symbol](*tensors)

        return tvm.runtime.Module.from_functions({symbol: run}, "a")

    x = relay.var("x", shape=(2, 3))
    r = relay.nn.relu(x)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(r), relay.tanh(r), r, r])))
    with taking("a", ["nn.relu"]), registered(a=generate):
        parts = partitioned(mod, ["a"])
        for kind in KINDS:
            calls.clear()
            assert_same(evaluate(parts, DATA, kind=kind), evaluate(mod, DATA))
            assert calls == [1], kind


def test_extern_functions_find_their_modules() -> None:
    marked = relay.transform.MarkCompilerFunctionsAsExtern("a")(relu_parts())
    with registered(a=c_module(RELU)):
        made = tvm.get_global_func("relay.ext.a")(relu_parts()["tvmgen_default_a_main_0"])
    complete = marked.with_attr("external_mods", [made])
    for kind in ("debug", "graph", "vm"):
        assert_same(evaluate(complete, DATA, kind=kind), [np.exp(np.maximum(DATA, 0))])
    with pytest.raises(TVMError) as caught:
        relay.build(marked, "llvm")
    assert str(caught.value) == (
        "tvmgen_default_a_main_0 is marked Extern, but none of the 0 modules in the IRModule's attribute external_mods has a"
        " function of that name"
    )


# ---- libraries over time


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
        "from tests.relay_byoc.test_build import load_saved, DATA\n"
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


# ---- what is wrong


def test_errors() -> None:
    parts = relu_parts()
    with pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    text = str(caught.value)
    assert text.startswith(
        "tvmgen_default_a_main_0 belongs to the compiler a, but no code generator is registered for it: register a function that"
        ' takes a relay.Function and answers a runtime.Module, @register_func("relay.ext.a"). Registered are: '
    )
    with registered(a=lambda func: None), pytest.raises(TVMError) as caught:
        relay.vm.compile(parts, "llvm")
    assert str(caught.value) == (
        "relay.ext.a must answer a runtime.Module with the function tvmgen_default_a_main_0, but answered NoneType."
        " runtime.c_source_module makes one of C source, runtime.Module.from_functions one of functions of Python"
    )
    with registered(a=lambda func: 3), pytest.raises(TVMError, match="but answered int: 3. runtime"):
        relay.build(parts, "llvm")
    wrong = lambda func: tvm.runtime.Module.from_functions({"other": print}, "mine")  # noqa: E731
    with registered(a=wrong), pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    assert (
        str(caught.value)
        == "the module that relay.ext.a answered, a mine module, has no function tvmgen_default_a_main_0"
    )
    named = lambda func: tvm.runtime.c_source_module("int x;", "c", ["f", "g"])  # noqa: E731
    with registered(a=named), pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    assert str(caught.value) == (
        "the module that relay.ext.a answered, a c module, has no function tvmgen_default_a_main_0; it has f, g"
    )

    def failing(func: relay.Function) -> Any:
        raise KeyError("mine")

    with registered(a=failing), pytest.raises(KeyError) as error:
        relay.build(parts, "llvm")
    assert error.value.__notes__ == ["while the code generator relay.ext.a was given tvmgen_default_a_main_0"]


def test_errors_of_the_start_for_c() -> None:
    func = next(iter(external(relu_parts()).values()))
    with pytest.raises(TVMError) as caught:
        CSourceCodegen("mine", {"abs": lambda call, x, y: ""}).generate(func)
    assert str(caught.value) == (
        "the C code generator mine has no body for nn.relu, which tvmgen_default_a_main_0 holds; it has abs"
    )
    with pytest.raises(TVMError) as caught:
        CSourceCodegen("mine", {"nn.relu": lambda call, x, y, z: ""}).generate(func)
    assert str(caught.value) == (
        "the body for nn.relu takes the tensors x, y, z, but 2 are read and written by this call"
    )
    with pytest.raises(
        ValueError, match="source of the format 'f90' cannot be compiled; the formats are c, cc, cpp, cxx, c"
    ):
        tvm.runtime.c_source_module("", "f90")
    with pytest.raises(TypeError, match="a module of C source is made of its text, but was given bytes"):
        tvm.runtime.c_source_module(b"")  # type: ignore[arg-type]
