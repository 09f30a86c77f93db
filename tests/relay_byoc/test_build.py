"""Code of external generators in every executor: in this process, in libraries, in a host without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import Generator
from tests.relay_byoc.helpers import (
    DATA,
    KINDS,
    OPERATORS,
    RELU,
    assert_same,
    c_module,
    evaluate,
    external,
    interpreted,
    load_saved,
    partitioned,
    registered,
    relu_parts,
    saved,
    taking,
)
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.backend.byoc.c_codegen import CSourceCodegen, operator
from tilewright.relay.dataflow_pattern import is_constant, is_op, wildcard
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import TVMError


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


# ---- what is wrong


def test_errors() -> None:
    parts = relu_parts()
    with pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    text = str(caught.value)
    assert text.startswith(
        "tvmgen_default_a_main_0 belongs to the compiler a, but no code generator is registered for it: register a function that"
        ' takes a relay.Function and returns a runtime.Module, @register_func("relay.ext.a"). Registered are: '
    )
    with registered(a=lambda func: None), pytest.raises(TVMError) as caught:
        relay.vm.compile(parts, "llvm")
    assert str(caught.value) == (
        "relay.ext.a must return a runtime.Module with the function tvmgen_default_a_main_0, but returned NoneType."
        " runtime.c_source_module makes one of C source, runtime.Module.from_functions one of functions of Python"
    )
    with registered(a=lambda func: 3), pytest.raises(TVMError, match="but returned int: 3. runtime"):
        relay.build(parts, "llvm")
    wrong = lambda func: tvm.runtime.Module.from_functions({"other": print}, "mine")  # noqa: E731
    with registered(a=wrong), pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    assert (
        str(caught.value)
        == "the module that relay.ext.a returned, a mine module, has no function tvmgen_default_a_main_0"
    )
    named = lambda func: tvm.runtime.c_source_module("int x;", "c", ["f", "g"])  # noqa: E731
    with registered(a=named), pytest.raises(TVMError) as caught:
        relay.build(parts, "llvm")
    assert str(caught.value) == (
        "the module that relay.ext.a returned, a c module, has no function tvmgen_default_a_main_0; it has f, g"
    )

    def failing(func: relay.Function) -> Any:
        raise KeyError("mine")

    with registered(a=failing), pytest.raises(KeyError) as error:
        relay.build(parts, "llvm")
    assert error.value.__notes__ == ["while the code generator relay.ext.a was given tvmgen_default_a_main_0"]


def test_the_operator_of_a_match_is_the_nearest() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    weights = [relay.const(np.zeros(s, "float32")) for s in ((4, 4, 3, 3), (4, 1, 3, 3))]
    first = relay.nn.relu(relay.nn.conv2d(x, weights[0]))
    last = relay.nn.relu(relay.nn.conv2d(first, weights[1], groups=4))
    assert operator(last, "nn.conv2d").attrs.groups == 4 and operator(first, "nn.conv2d").attrs.groups == 1
    with pytest.raises(TVMError, match="there is no call of nn.dense in"):
        operator(last, "nn.dense")


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
