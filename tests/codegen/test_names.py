"""Function names that are no C identifiers, or that the C library has taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tilewright import runtime
from tilewright.codegen import llvm
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.tir import BufferLoad, BufferStore, For, ForKind, PrimFunc, Var, const, decl_buffer, tanh

NAMES = ["two words", "a-b.c", "9lives", 'quo"te', "back\\slash", "ünï", "new\nline", "%p", "main", "malloc"]


def double(name: str, kind: int = ForKind.PARALLEL) -> PrimFunc:
    i = Var("i")
    a, c = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "C")
    body = For(i, const(0), const(64), kind, BufferStore(c, BufferLoad(a, (i,)) * 2.0, (i,)))
    return PrimFunc([a, c], body, attrs={"global_symbol": name})


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", NAMES)
def test_any_name_works(name: str, target: str, tmp_path: Path) -> None:
    module = tvm.build(double(name), target=target)
    x = np.arange(64, dtype=np.float32)
    for m in (module, exported(module, tmp_path)):
        c = tvm.nd.array(np.zeros(64, np.float32))
        m[name](tvm.nd.array(x), c)
        np.testing.assert_array_equal(c.numpy(), 2 * x)


def exported(module: runtime.Module, folder: Path) -> runtime.Module:
    path = folder / "m.so"
    module.export_library(str(path))
    return runtime.load_module(str(path))


def test_names_that_cannot_be_symbols_are_refused() -> None:
    for name in ("a\0b", "a@b"):
        with pytest.raises(TVMError, match="cannot be a symbol: symbols are not empty, and hold neither NUL nor @"):
            tvm.build(double(name), target="llvm")


def test_name_of_a_c_function_that_the_code_calls_is_refused() -> None:
    a, c = decl_buffer((1,), "float64", "A"), decl_buffer((1,), "float64", "C")
    func = PrimFunc(
        [a, c],
        BufferStore(c, tanh(BufferLoad(a, (const(0),))), (const(0),)),
        attrs={"global_symbol": "tanh", "calling_conv": "aot"},
    )
    with pytest.raises(
        TVMError, match="'tanh' is also the C library function that this code calls. Give the PrimFunc another name"
    ):
        llvm.emit_module(IRModule.from_expr(func), tvm.target.Target("llvm"))
