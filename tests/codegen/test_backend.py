"""Code generators behind their interface: another one takes the whole way of programs and models, touching nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, runtime, te
from tilewright.codegen import backend
from tilewright.codegen.backend import Code, back_end_of, back_ends, register_back_end
from tilewright.codegen.llvm.backend import LLVM
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay.backend.keys import target_key
from tilewright.support.errors import TVMError
from tilewright.target import Target


class Signed(LLVM):
    """LLVM for another kind of target, which signs its code."""

    kind: ClassVar[str] = "hybrid"
    signed: ClassVar[list[str]] = []

    def emit(self, mod: IRModule, target: Target) -> Code:
        code = super().emit(mod, target)
        self.signed.append(code.text)
        return Code(f"; signed\n{code.text}", code.effort)


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(backend, "_BACK_ENDS", dict(backend._BACK_ENDS))
    register_back_end(Signed())
    Signed.signed.clear()
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    yield Signed.signed


def network() -> tuple[IRModule, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((5, 4), dtype="float32"), rng.standard_normal((3, 4), dtype="float32")
    data = relay.var("x", shape=(3, 4))
    mod = IRModule.from_expr(relay.Function([data], relay.nn.relu(relay.nn.dense(data, relay.const(w)))))
    return mod, x, np.maximum(x @ w.T, 0)


def test_tensor_program(signed: list[str]) -> None:
    a = te.placeholder((8,), name="a")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="b")])
    out = tvm.nd.empty((8,))
    tvm.build(func, target="hybrid")(tvm.nd.array(np.arange(8, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(1, 9))


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_model(executor: str, signed: list[str], tmp_path: Path) -> None:
    mod, x, expected = network()
    library = relay.build(mod, "hybrid", executor=relay.backend.Executor(executor))
    library.export_library(str(tmp_path / "m.so"))
    for lib in (library.lib, runtime.load_module(str(tmp_path / "m.so"))):
        run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        run.set_input("x", x)
        run.run()
        np.testing.assert_allclose(run.get_output(0).numpy(), expected, rtol=1e-5)
    assert signed and "; signed" in library.get_source()


def test_program_of_the_virtual_machine(signed: list[str]) -> None:
    mod, x, expected = network()
    run = runtime.vm.VirtualMachine(relay.vm.compile(mod, "hybrid"), tvm.cpu())
    np.testing.assert_allclose(run.invoke("main", tvm.nd.array(x)).numpy(), expected, rtol=1e-5)
    assert signed


def test_forms_of_code(signed: list[str]) -> None:
    library = relay.build(network()[0], "hybrid")
    name = library.metadata["kernels"][0]["name"]
    assert library.kernel_source(name).startswith("; signed") and ".text" in library.kernel_source(name, "s")
    with pytest.raises(
        ValueError, match="a kernel has no source of the kind 'ptx'; there are te, tir, lowered, ll, s, asm"
    ):
        library.kernel_source(name, "ptx")


def test_the_cache_tells_back_ends_and_versions_apart(signed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [target_key(Target("hybrid"))]
    monkeypatch.setattr(Signed, "version", "2")
    keys.append(target_key(Target("hybrid")))
    register_back_end(type("Other", (Signed,), {})(), override=True)
    keys.append(target_key(Target("hybrid")))
    assert len(set(keys)) == 3


@pytest.mark.llvm
def test_the_cache_tells_versions_of_llvm_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    before = [target_key(Target(t)) for t in ("llvm", "interp")]
    monkeypatch.setattr(llvmlite, "__version__", "0")
    llvm, interp = [target_key(Target(t)) for t in ("llvm", "interp")]
    assert llvm != before[0] and interp == before[1]


def test_refusals(signed: list[str]) -> None:
    assert {"llvm", "hybrid"} <= set(back_ends())
    with pytest.raises(TVMError, match="^target kind 'hybrid' has a code generator; pass override=True to replace it$"):
        register_back_end(Signed())
    register_back_end(Signed(), override=True)
    kinds = "c, cuda, ext_dev, hybrid, interp, llvm, metal, nvptx, opencl"
    text = f"^relay.build: there is no code generator for target kind 'vulkan'; there are ones for {kinds}$"
    with pytest.raises(TVMError, match=text):
        back_end_of(Target("vulkan"), "relay.build")
