"""export_library with an `fcompile` that takes source: all code of a module in the form that it asks for, and the objects beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, runtime, te
from tilewright.relay.backend import Executor, compilation, model_cache
from tilewright.runtime import libinfo
from tilewright.runtime.linking.c_source import compiler_command

ZIG = [sys.executable, "-m", "ziglang", "cc"]
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


def model() -> tvm.IRModule:
    """x of (3, 4) -> the running sums of softmax(x @ w.T) in each row, by several kernels."""
    x = relay.var("x", shape=(3, 4))
    w = relay.const(np.arange(20, dtype="float32").reshape(5, 4) / 10)
    sums = relay.cumsum(relay.nn.softmax(relay.nn.dense(x, w)), axis=1)
    return tvm.IRModule.from_expr(relay.Function([x], sums))


def compiler_of(form: str, seen: list[str]) -> Callable[..., None]:
    """An `fcompile` that takes a form of source; `seen` gets the names of the files."""
    # The compilers of most machines do not read LLVM's language.
    command = ZIG if form == "ll" else compiler_command("c")

    def fcompile(path: str, files: list[str]) -> None:
        seen[:] = [Path(file).name for file in files]
        flags = ["-shared", "-fPIC", "-O1", "-w", "-march=native", *libinfo.compile_options()]
        subprocess.run([*command, *flags, *files, "-o", path, "-lm"], check=True)

    fcompile.object_format = form  # type: ignore[attr-defined]
    return fcompile


def result(library: Any) -> Any:
    executor = library["default"](tvm.cpu())
    executor["set_input"]("x", runtime.array(X))
    executor["run"]()
    return executor["get_output"](0).numpy()


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize(("target", "form"), [("c", "c"), ("llvm", "s"), ("llvm", "ll")])
def test_models(
    tmp_path: Path, target: str, form: str, executor: str, monkeypatch: pytest.MonkeyPatch, untold_operators: None
) -> None:
    """The kernels and what calls them, also where the model comes from the cache; metadata and constants stay objects."""
    e = np.exp(X @ (np.arange(20, dtype="float32").reshape(5, 4) / 10).T)
    expected = np.cumsum(e / e.sum(1, keepdims=True), axis=1)
    monkeypatch.setattr(model_cache, "FEWEST_CALLS", 1)
    for name in ("first.so", "again.so"):
        library = relay.build(model(), target, executor=Executor(executor))
        seen: list[str] = []
        library.export_library(tmp_path / name, fcompile=compiler_of(form, seen))
        texts = len(library.metadata["kernels"]) + 1
        assert texts > 2 and seen[:texts] == [f"lib0_{i}.{form}" for i in range(texts)]
        assert all(file.endswith(".o") for file in seen[texts:])
        np.testing.assert_allclose(result(runtime.load_module(tmp_path / name)), expected, rtol=1e-5)
        monkeypatch.setattr(compilation, "compile_model", None)


def add(name: str, **attrs: Any) -> runtime.Module:
    a = te.placeholder((4,), name="a")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1, name="b")])
    return tvm.build(
        tvm.IRModule({tvm.ir.GlobalVar(name): func.with_attr("global_symbol", name)}, attrs=attrs), target="llvm"
    )


def test_modules_that_are_imported(tmp_path: Path) -> None:
    """C source, and somebody else's objects, are objects beside the text."""
    whole = add("f")
    whole.import_module(
        runtime.c_source_module("#include <tilewright/packed.h>\nTW_PACKED_FUNC(none) { return 0; }", "c", ["none"])
    )
    add("g").save(str(tmp_path / "g.o"))
    whole.import_module(runtime.load_static_library(tmp_path / "g.o", ["g"]))
    seen: list[str] = []
    whole.export_library(tmp_path / "f.so", fcompile=compiler_of("s", seen))
    assert seen == ["lib0_0.s", "seal.o", "lib1_0.o", "lib2_0.o", "target.o"]
    loaded, out = runtime.load_module(tmp_path / "f.so"), runtime.empty((4,))
    loaded["none"]()
    for name in ("f", "g"):
        loaded[name](runtime.array(np.full(4, 2, "float32")), out)
        assert out.numpy().tolist() == [3] * 4


def test_forms_that_cannot_be_had(tmp_path: Path) -> None:
    seen: list[str] = []
    with pytest.raises(ValueError, match=r"takes files of the format 'c', which the module's code is not written in"):
        relay.build(model(), "llvm").export_library(tmp_path / "m.so", fcompile=compiler_of("c", seen))
    with pytest.raises(ValueError, match=r"the prefix 'mine_' of the module's symbols \(system_lib_prefix\) is given"):
        add("f", system_lib_prefix="mine_").export_library(tmp_path / "m.so", fcompile=compiler_of("ll", seen))
    mixed = relay.annotation.on_device(model()["main"].body, tvm.cpu(1), constrain_result=True)
    devices = {tvm.cpu(0): "llvm", tvm.cpu(1): "c"}
    library = relay.build(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(mixed), mixed)), devices)
    with pytest.raises(ValueError, match=r"takes files of the format 'll', which the module's code is not written in"):
        library.export_library(tmp_path / "m.so", fcompile=compiler_of("ll", seen))
    assert not seen
    (name, *_) = library.texts.kernels
    with pytest.raises(ValueError, match="a kernel has no source of the kind 'll'; there are te, tir, lowered, c"):
        library.kernel_source(name, "ll")
