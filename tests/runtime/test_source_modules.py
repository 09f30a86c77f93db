"""Modules of C source and of Python functions: compiled, found, held by libraries, and made again."""

from __future__ import annotations

import gc
import importlib.util
import re
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.runtime import Module, c_source_module, load_module
from tilewright.runtime.linking import c_source
from tilewright.runtime.linking.export import library_bin
from tilewright.runtime.linking.module_source import ModuleSource
from tilewright.runtime.linking.object_file import data_object
from tilewright.runtime.linking.zig import zig_cpu, zig_target
from tilewright.runtime.module import _sources
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import ObjectKind

DOUBLE = """
#include <tilewright/packed.h>
TW_PACKED_FUNC(twice) {
  TW_EXPECT_ARGS(2);
  DLTensor *x = TW_TENSOR(0), *y = TW_TENSOR(1);
  if (!x || !y || x->ndim != 1) return tw_error("TypeError", "twice takes two vectors");
  for (int64_t i = 0; i < x->shape[0]; ++i) TW_DATA(float, 1)[i] = 2 * TW_DATA(float, 0)[i];
  return 0;
}
"""
X = tvm.nd.array(np.float32([1, 2, 3]))


def twice(module: Any, name: str = "twice") -> np.ndarray:
    y = tvm.nd.empty((3,))
    module[name](X, y)
    found: np.ndarray = y.numpy()
    return found


def test_c_is_compiled_when_it_is_called(tmp_path: Path) -> None:
    module = c_source_module(DOUBLE, "c", ["twice"])
    assert (module.type_key, module["get_symbol"](), module["get_func_names"]()) == ("c", "twice", ["twice"])
    assert not module.implements_function("get_const_vars") and not module.implements_function("other")
    assert module.is_dso_exportable and not module.is_binary_serializable
    assert module.get_source() == module.get_source("c") == DOUBLE
    np.testing.assert_array_equal(twice(module), [2, 4, 6])
    with pytest.raises(TypeError, match="twice takes two vectors"):
        module["twice"](X, 1)
    with pytest.raises(TypeError, match="a function of generated code expects 2 arguments"):
        module["twice"](X)
    for name in ("m.so", "m.tar", "m.o"):
        np.testing.assert_array_equal(twice(load_module(module.export_library(tmp_path / name))), [2, 4, 6])
    module.export_library(tmp_path / "m.c")
    assert (tmp_path / "m.c").read_text() == DOUBLE


@pytest.mark.slow
def test_by_the_compiler_of_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert c_source.compiler_command("c") == [sys.executable, "-m", "ziglang", "cc"]
    np.testing.assert_array_equal(twice(c_source_module(DOUBLE + "/* zig */", "c", ["twice"])), [2, 4, 6])
    command = c_source.compiler_command("c++", "aarch64-unknown-linux-gnu")
    assert command[-3:] == ["c++", "-target", "aarch64-linux-gnu"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TVMError) as caught:
        c_source.compiler_command("c")
    assert str(caught.value) == (
        "compiling C source needs a compiler, and this machine has none: install one, or `pip install 'tilewright[cross]'`;"
        " CC and CXX may name one"
    )


@pytest.mark.parametrize(
    ("triple", "target", "cpu"),
    [
        ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu", None),
        ("aarch64-linux-android21", "aarch64-linux-android", None),
        ("armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf", "generic+v7a"),
        ("armv6-unknown-linux-gnueabihf", "arm-linux-gnueabihf", "generic+v6+vfp2"),
        ("thumbv7em-unknown-none-eabihf", "thumb-freestanding-eabihf", "generic+v7em+vfp4d16sp"),
        ("i686-unknown-linux-gnu", "x86-linux-gnu", None),
        ("riscv32-unknown-elf", "riscv32-freestanding", "generic_rv32"),
        ("riscv64-unknown-linux-gnu", "riscv64-linux-gnu", None),
        ("arm64-apple-darwin22.1.0", "aarch64-macos", None),
        ("x86_64-apple-macosx13.0", "x86_64-macos.13.0", None),
        ("x86_64-pc-windows-msvc", "x86_64-windows-msvc", None),
        ("wasm32-unknown-unknown", "wasm32-freestanding", None),
        ("x86_64-unknown-fuchsia", "x86_64-fuchsia", None),
    ],
)
def test_machines_as_zig_names_them(triple: str, target: str, cpu: str | None) -> None:
    assert (zig_target(triple), zig_cpu(triple)) == (target, cpu)


@pytest.mark.parametrize("cpu", ["cortex-m33", "cortex-m35p", "cortex-m85"])
def test_zig_has_the_features_of_processors(cpu: str, tmp_path: Path) -> None:
    source = tmp_path / "dsp.c"
    source.write_text("#ifndef __ARM_FEATURE_DSP\n#error no DSP extension\n#endif\nint x;\n")
    machine = ["-target", "thumb-freestanding-eabi", f"-mcpu={zig_cpu('thumbv8m.main-unknown-none-eabi', cpu)}"]
    files = ["-c", str(source), "-o", str(tmp_path / "dsp.o")]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *machine, *files], check=True)


def test_the_compiler_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -flag")
    assert c_source.compiler_command("c") == ["no-such-compiler", "-flag"]


def test_code_that_does_not_compile() -> None:
    module = c_source_module("int f( {", "c", ["f"])
    with pytest.raises(TVMError) as caught:
        module["f"]()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("generated C source does not compile: ") and lines[1].startswith("code.c:1:")


def test_numbers_and_lists_in_cpp() -> None:
    code = """
#include <tvm/runtime/packed_func.h>
using namespace tvm::runtime;
static int total(Array<NDArray> all, int64_t factor, double part, bool whole, DLTensor* out) {
  float sum = 0;
  for (size_t i = 0; i < all.size(); ++i) sum += static_cast<float*>(all[i]->data)[0];
  static_cast<float*>(out->data)[0] = whole ? sum * factor + part : 0;
  return 0;
}
static void nothing() {}
static int64_t product(int64_t a, int64_t b) { return a * b; }
static NDArray same(NDArray x) { return x; }
TVM_DLL_EXPORT_TYPED_FUNC(product, product);
TVM_DLL_EXPORT_TYPED_FUNC(same, same);
TVM_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_DLL_EXPORT_TYPED_FUNC(nothing, nothing);
"""
    module, out = c_source_module(code, "cpp", ["total", "nothing", "product", "same"]), tvm.nd.empty((1,))
    module["total"]([X, X], 10, 0.5, True, out)
    assert module["nothing"]() is None and module["product"](-6, 7) == -42
    np.testing.assert_array_equal(module["same"](X).numpy(), X)
    assert out.numpy() == 20.5
    with pytest.raises(TypeError) as caught:
        module["total"](out)
    signature = "(0: Array<runtime.NDArray>, 1: int64_t, 2: double, 3: bool, 4: DLTensor*) -> int"
    assert str(caught.value) == f"Function total{signature} expects 5 arguments, but 1 were provided."


def test_functions_of_python() -> None:
    gc.collect()
    count = len(_sources)
    source = ModuleSource(texts={"txt": lambda: "words"})
    module = Module.from_functions({"twice": lambda x, y: y.copyfrom(2 * x.numpy())}, "mine", source)
    np.testing.assert_array_equal(twice(module), [2, 4, 6])
    assert module.type_key == "mine" and module.get_source("txt") == "words"
    with pytest.raises(AttributeError, match="the module has no function `other`"):
        module["other"]
    found = Module.from_functions(lambda name: (lambda: name) if name.startswith("say_") else None, "talker")
    assert found["say_this"]() == "say_this" and not found.implements_function("sing")
    wrong = Module.from_functions(lambda name: 3, "wrong")
    with pytest.raises(TypeError, match="the module of kind `wrong` must return the name `f` with a function or None"):
        wrong["f"]
    del module, found, wrong
    gc.collect()
    assert len(_sources) == count


def test_ir_arrives_as_itself() -> None:
    seen: list[Any] = []
    tvm.register_func("test.takes_ir", lambda e: seen.append(e) or e, override=True)
    func = tvm.relay.Function([], tvm.relay.const(1.0))
    assert tvm.get_global_func("test.takes_ir")(func) is func and seen == [func]
    tvm.runtime.remove_global_func("test.takes_ir")


def mine(data: bytes) -> Module:
    factor = float(data.decode())
    functions = {"times": lambda x, y: y.copyfrom(factor * x.numpy())}
    return Module.from_functions(functions, "held", save=lambda: data)


def test_modules_that_a_library_holds(tmp_path: Path) -> None:
    module = c_source_module(DOUBLE, "c", ["twice"])
    module.import_module(mine(b"3"))
    assert mine(b"3").is_binary_serializable
    path = module.export_library(tmp_path / "m.so")
    with pytest.raises(ValueError) as caught:
        load_module(path)
    assert str(caught.value) == (
        "the library holds a module of kind `held`, but nothing here can load it: import the package that made it, or register"
        " `runtime.module.loadbinary_held`, a function from bytes to a module"
    )
    for name in ("runtime.module.loadbinary_held", "ffi.Module.load_from_bytes.held"):
        tvm.register_func(name, mine)
        loaded = load_module(path)
        tvm.runtime.remove_global_func(name)
        assert [m.type_key for m in loaded.imported_modules] == ["held"]
        np.testing.assert_array_equal(twice(loaded), [2, 4, 6])
        np.testing.assert_array_equal(twice({"twice": loaded.get_function("times", True)}), [3, 6, 9])
    tvm.register_func("runtime.module.loadbinary_held", lambda data: 3)
    with pytest.raises(TypeError, match="`runtime.module.loadbinary_held` must return a module"):
        load_module(path)
    tvm.runtime.remove_global_func("runtime.module.loadbinary_held")


@pytest.mark.parametrize("seed", range(12))
def test_damaged_modules(seed: int, tmp_path: Path) -> None:
    data = bytearray(library_bin([("held", b"3"), ("held", b"4")]))
    rng = np.random.default_rng(seed)
    at = int(rng.integers(0, len(data) // 8)) * 8
    data[at : at + 8] = struct.pack("<Q", int(rng.integers(1, 2**63)))
    module = c_source_module(DOUBLE, "c", ["twice"])
    extra = tmp_path / "extra.o"
    kind = ObjectKind.host()
    assert kind is not None
    extra.write_bytes(data_object("__tvm_ffi__library_bin", bytes(data), kind))
    path = module.export_library(tmp_path / "m.so", addons=[str(extra)])
    tvm.register_func("runtime.module.loadbinary_held", mine, override=True)
    try:
        load_module(path)
    except ValueError as error:
        # A number that makes another tree of imports is no damage that shows.
        assert re.search(
            "the modules that the library holds are damaged|nothing here can load it|could not", str(error)
        )
    finally:
        tvm.runtime.remove_global_func("runtime.module.loadbinary_held")


def test_a_cycle_of_imports() -> None:
    a, b = mine(b"1"), mine(b"2")
    a.import_module(b)
    with pytest.raises(ValueError, match="importing this module would make a cycle of imports"):
        b.import_module(a)


def test_compiled_code_finds_functions_of_what_it_imports(tmp_path: Path) -> None:
    """By name: in the library, in what it imports, then globally; a global one may be replaced at any time."""
    a = tvm.te.placeholder((3,), name="a")
    call = lambda ins, outs: tvm.tir.call_packed("test.imported", ins[0], outs[0])  # noqa: E731
    b = tvm.te.extern((3,), [a], call, name="b", dtype="float32")
    module = tvm.build(tvm.te.create_prim_func([a, b]), target="llvm")
    with pytest.raises(ValueError) as caught:
        twice(module, "main")
    assert str(caught.value) == (
        "compiled code calls the function `test.imported`, which is not registered; use register_func, or import_module the"
        " module that has it"
    )
    for factor in (5, 7):
        tvm.register_func("test.imported", lambda x, y, f=factor: y.copyfrom(f * x.numpy()), override=True)
        np.testing.assert_array_equal(twice(module, "main"), factor * X.numpy())
    imported = Module.from_functions(
        {"test.imported": lambda x, y: y.copyfrom(3 * x.numpy())}, "held", save=lambda: b"3"
    )
    module.import_module(imported)
    np.testing.assert_array_equal(twice(module, "main"), 3 * X.numpy())
    tvm.runtime.remove_global_func("test.imported")
    np.testing.assert_array_equal(twice(module, "main"), 3 * X.numpy())
    module = tvm.build(tvm.te.create_prim_func([a, b]), target="llvm")
    module.import_module(c_source_module(DOUBLE.replace("twice)", "imported)"), "c", ["imported"]))
    with pytest.raises(ValueError, match="calls the function `test.imported`"):
        twice(module, "main")


def test_a_full_disk_under_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The compiler's own temporary files do not fit: the source is not to blame."""
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\necho 'fatal error: error writing to /tmp/ccX.s: No space left on device' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(
        TVMError, match="^temporary files cannot be written in .*: No space left on device; free some space there"
    ):
        c_source.compile_source("int full;", "c")


def test_a_compiler_that_is_asked_for_its_version_leaves_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As zig's for macOS did: an empty `a.o` in the folder of the user."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "compiler"
    real = shlex.join(c_source.compiler_command("c"))
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && : > a.o\nexec {real} "$@"\n')
    script.chmod(0o755)
    c_source.compile_source("int one(void) { return 1; }", "c", cc="./compiler")
    assert [p.name for p in tmp_path.iterdir()] == ["compiler"]
