"""C as a back end: tensor programs, models by every executor, exported libraries, and code that a compiler refuses."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.small_programs import aligned, native
from tests.codegen.test_random_programs import SIZE, Generator
from tilewright import relay, runtime, te, tir
from tilewright.codegen import interp
from tilewright.codegen.source.c.toolchain import compile_text
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay.backend.keys import target_key
from tilewright.support.errors import TVMError
from tilewright.target import Target


def rows() -> tir.PrimFunc:
    n = te.var("n")
    a = te.placeholder((n, 8), name="a")
    return te.create_prim_func([a, te.compute((n, 8), lambda i, j: te.exp(a[i, j]) * 2.0, name="b")])


def network() -> tuple[IRModule, np.ndarray]:
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> relay.Expr:
        return relay.const(rng.standard_normal(shape, dtype="float32"))

    x = relay.var("x", shape=(1, 3, 12, 12))
    y = relay.nn.max_pool2d(relay.nn.relu(relay.nn.conv2d(x, weights(8, 3, 3, 3), padding=(1, 1))), (2, 2), (2, 2))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.sigmoid(y)))
    y = relay.nn.softmax(relay.nn.dense(y, weights(10, 8)))
    return IRModule.from_expr(relay.Function([x], y)), rng.standard_normal((1, 3, 12, 12), dtype="float32")


def ran(library: runtime.Module, x: np.ndarray) -> np.ndarray:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=x)
    return executor.get_output(0).numpy()


def test_tensor_program_and_its_library(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, 40, dtype="float32").reshape(5, 8)
    made = tvm.build(rows(), target="c", name="twice")
    made.export_library(str(tmp_path / "f.so"))
    for module in (made, runtime.load_module(str(tmp_path / "f.so"))):
        out = tvm.nd.empty((5, 8))
        module["twice"](tvm.nd.array(x), out)
        np.testing.assert_allclose(out.numpy(), 2 * np.exp(x), rtol=1e-6)
    source = made.get_source()
    assert source.startswith("#include <tilewright/kernel.h>") and "for (" in source


def test_wrong_arguments_are_refused_as_by_llvm() -> None:
    texts = []
    for target in ("llvm", "c"):
        with pytest.raises((TVMError, TypeError, ValueError)) as caught:
            tvm.build(rows(), target=target, name="twice")(tvm.nd.empty((5, 7)), tvm.nd.empty((5, 8)))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_model(executor: str, tmp_path: Path) -> None:
    mod, x = network()
    expected = ran(relay.build(mod, "llvm"), x)
    library = relay.build(mod, "c", executor=relay.backend.Executor(executor))
    paths = [str(tmp_path / "m.so"), str(tmp_path / "m.tar")]
    for path in paths:
        library.export_library(path)
    for lib in (library.lib, *[runtime.load_module(path) for path in paths]):
        np.testing.assert_allclose(ran(lib, x), expected, rtol=1e-5, atol=1e-6)
    source = library.get_source()
    assert source.startswith("#include <tilewright/kernel.h>") and "int32_t fused_nn_softmax(void** args)" in source


def test_program_of_the_virtual_machine() -> None:
    mod, x = network()
    run = runtime.vm.VirtualMachine(relay.vm.compile(mod, "c"), tvm.cpu())
    found = run.invoke("main", tvm.nd.array(x)).numpy()
    np.testing.assert_allclose(found, ran(relay.build(mod, "llvm"), x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    func, rng = Generator(seed).function(), np.random.default_rng(seed)
    arrays = [
        rng.integers(-3, 4, SIZE).astype(np.float32), rng.integers(-2, 3, SIZE).astype(np.float32),
        rng.integers(-50, 50, SIZE).astype(np.int32), np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32),
    ]  # fmt: skip
    expected = [a.copy() for a in arrays]
    interp.run(func, expected)
    got = [aligned(a, str(a.dtype)) for a in arrays]
    assert native(func, got, "c", opt_level=1) == 0
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_compiled_by_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    mod, x = network()
    np.testing.assert_allclose(ran(relay.build(mod, "c"), x), ran(relay.build(mod, "llvm"), x), rtol=1e-5, atol=1e-6)


def test_code_is_the_same_for_the_same_program() -> None:
    mod, _ = network()
    assert relay.build(mod, "c").get_source() == relay.build(mod, "c").get_source()


def test_the_cache_tells_compilers_versions_and_flags_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, keys = tmp_path / "cc", [target_key(Target("c"))]
    monkeypatch.setenv("CC", str(compiler))
    for version in ("1.0", "1.1"):
        compiler.write_text(f"#!/bin/sh\necho {version}\n")
        compiler.chmod(0o755)
        keys.append(target_key(Target("c")))
    monkeypatch.setenv("CC", f"{compiler} -Wall")
    keys += [target_key(Target("c")), target_key(Target("c -mattr=+avx2"))]
    assert "1.1" in keys[2] and len(set(keys)) == 5


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(TVMError, match="^the compiler cannot be run: no-such-compiler: No such file or directory$"):
        tvm.build(rows(), target="c")


def test_refused_code_shows_the_words_the_command_and_the_file() -> None:
    with pytest.raises(
        TVMError, match=r"(?s)does not compile: .*error.*the source is kept in .*; the command was\n"
    ) as caught:
        compile_text("int f( {\n", Target("c"))
    kept = Path(re.search(r"kept in (.*);", str(caught.value))[1])
    assert kept.read_text() == "int f( {\n" and os.fspath(kept) in str(caught.value).splitlines()[-1]
    kept.unlink()
    kept.parent.rmdir()
