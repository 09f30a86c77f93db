"""Packages in the model library format: their files, their description, and what a C compiler makes of them."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.cli.command import command, dense_model
from tilewright import relay, runtime, te
from tilewright.contrib import graph_executor
from tilewright.micro import UnsupportedInModelLibraryFormatError, export_model_library_format
from tilewright.micro.model_library_format import NonStaticShapeError, generate_c_interface_header
from tilewright.relay.backend import Executor, Runtime
from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.errors import TVMError

BARE = {"executor": Executor("aot", {"unpacked-api": True, "interface-api": "c"}), "runtime": Runtime("crt")}
X = np.arange(6, dtype="float32").reshape(2, 3) / 4


def model(scale: float, target: str, name: str = "default", **how: Any) -> Any:
    """x of (2, 3) -> softmax(x @ w), w = scale * [0, 1, ..., 5]."""
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w))))
    params = {"w": scale * np.arange(6, dtype="float32").reshape(2, 3)}
    return relay.build(mod, target, params=params, mod_name=name, **how)


def expected(scale: float) -> Any:
    e = np.exp(X @ (scale * np.arange(6, dtype="float32").reshape(2, 3)).T)
    return e / e.sum(1, keepdims=True)


def unpacked(path: Path, to: Path) -> list[str]:
    with tarfile.open(path) as tar:
        tar.extractall(to, filter="data")
    return sorted([str(p.relative_to(to)) for p in to.rglob("*") if p.is_file()])


def described(folder: Path) -> Any:
    found = json.loads((folder / "metadata.json").read_text())
    assert found["version"] == 7
    return found["modules"]


MAIN = """
#include <stdio.h>
#include "tvmgen_first.h"
#include "tvmgen_second.h"
int main(void) {
  float x[6] = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f}, y[4], z[4];
  char memory[TVMGEN_SECOND_FAST_WORKSPACE_POOL_SIZE];
  struct tvmgen_first_inputs a = {x};
  struct tvmgen_first_outputs b = {y};
  struct tvmgen_second_inputs c = {x};
  struct tvmgen_second_outputs d = {z};
  struct tvmgen_second_workspace_pools pools = {memory};
  if (sizeof x != TVMGEN_FIRST_X_SIZE || sizeof y != TVMGEN_FIRST_OUTPUT_SIZE) return 1;
  if (tvmgen_first_run(&a, &b) || tvmgen_second_run(&c, &d, &pools)) return 2;
  printf("%.6f %.6f\\n", y[1], z[1]);
  return 0;
}
"""


def test_two_models_as_source_in_one_program(tmp_path: Path) -> None:
    """The interface for C programs; the second model's workspace is the program's memory."""
    fast = tvm.WorkspaceMemoryPools([tvm.WorkspacePoolInfo("fast", [tvm.target.Target("c")])])
    mods = [model(0.1, "c", "first", **BARE), model(0.2, "c", "second", workspace_memory_pools=fast, **BARE)]
    assert export_model_library_format(mods, tmp_path / "m.tar") == str(tmp_path / "m.tar")
    files = unpacked(tmp_path / "m.tar", tmp_path / "m")
    assert files == [
        *["codegen/host/include/" + h for h in ("tilewright/kernel.h", "tvmgen_first.h", "tvmgen_second.h")],
        *[f"codegen/host/src/{n}_lib{i}.c" if i < 3 else "codegen/host/src/flags" for n, i in FIRST_SOURCES],
        "executor-config/aot/first.json", "executor-config/aot/second.json", "metadata.json", "parameters/first.params",
        "parameters/second.params", "src/first.relay", "src/second.relay",
    ]  # fmt: skip
    (tmp_path / "main.c").write_text(MAIN)
    host = tmp_path / "m/codegen/host"
    sources = [str(p) for p in sorted(host.glob("src/*.c"))]
    warnings = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [*compiler_command("c"), *warnings, f"-I{host}/include", str(tmp_path / "main.c"), *sources, "-o", str(tmp_path / "main"), "-lm"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert [float(v) for v in out.split()] == pytest.approx([expected(0.1)[0, 1], expected(0.2)[0, 1]], abs=1e-5)
    first = described(tmp_path / "m")["first"]
    assert (first["style"], first["executors"], first["external_dependencies"]) == ("full-model", ["aot"], [])
    assert first["target"] == [str(tvm.target.Target("c"))] and first["export_datetime"].endswith("Z")
    (main,) = first["memory"]["functions"]["main"]
    assert main == {
        "device": 1, "constants_size_bytes": main["constants_size_bytes"], "workspace_size_bytes": main["workspace_size_bytes"],
        "io_size_bytes": 40, "inputs": {"x": {"size": 24, "dtype": "float32"}}, "outputs": {"output_0": {"size": 16, "dtype": "float32"}},
    }  # fmt: skip
    assert main["constants_size_bytes"] >= 24 and main["workspace_size_bytes"] >= 16
    operators = first["memory"]["functions"]["operator_functions"]
    assert [set(o) for o in operators] == [{"function_name", "workspace", "constants", "io"}] * 2
    assert (
        operators[0]["function_name"].startswith("tvmgen_first_fused_") and operators[0]["workspace"][0]["device"] == 1
    )


FIRST_SOURCES = [*[("first", i) for i in range(3)], ("", 9), *[("second", i) for i in range(3)]]
FIRST_SOURCES = sorted(FIRST_SOURCES, key=lambda f: f"{f[0]}_lib{f[1]}.c" if f[1] < 3 else "flags")


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_graph_library_and_parameters(target: str, tmp_path: Path) -> None:
    """The graph executor runs the parts of a package; the library is compiled or linked when it is loaded."""
    export_model_library_format(model(0.1, target, "net", executor=Executor("graph")), tmp_path / "m.tar")
    files = unpacked(tmp_path / "m.tar", tmp_path / "m")
    assert {"executor-config/graph/net.graph", "parameters/net.params", "src/net.relay"} <= set(files)
    assert any(
        [f.startswith("codegen/host/src/net_lib0.c" if target == "c" else "codegen/host/lib/net_lib0.o") for f in files]
    )
    library = runtime.load_module(tmp_path / "m.tar")
    graph = (tmp_path / "m/executor-config/graph/net.graph").read_text()
    executor = graph_executor.create(graph, library, tvm.cpu())
    executor.load_params((tmp_path / "m/parameters/net.params").read_bytes())
    executor.run(x=X)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(0.1), rtol=1e-5)
    memory = described(tmp_path / "m")["net"]["memory"]
    assert memory["sids"][0] == {"storage_id": 0, "size_bytes": 24, "input_binding": "x"}
    assert memory["functions"]["main"][0]["io_size_bytes"] == 40


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_one_library_with_all(target: str, tmp_path: Path) -> None:
    export_model_library_format(model(0.1, target), tmp_path / "m.tar")
    executor = graph_executor.GraphModule(runtime.load_module(tmp_path / "m.tar")["default"](tvm.cpu()))
    executor.run(x=X)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(0.1), rtol=1e-5)


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_two_packed_models_in_one_program(target: str, tmp_path: Path) -> None:
    """Each registers itself under the prefix that the description names."""
    system = Runtime("cpp", {"system-lib": True})
    mods = [model(0.1 * (i + 1), target, f"net{i}", runtime=system) for i in range(2)]
    export_model_library_format(mods, tmp_path / "m.tar")
    unpacked(tmp_path / "m.tar", tmp_path / "m")
    prefixes = [m["system_lib_prefix"] for m in described(tmp_path / "m").values()]
    assert prefixes == ["tvmgen_net0_", "tvmgen_net1_"]
    runtime.load_module(tmp_path / "m.tar")
    for i, prefix in enumerate(prefixes):
        executor = graph_executor.GraphModule(runtime.system_lib(prefix)["default"](tvm.cpu()))
        executor.run(x=X)
        np.testing.assert_allclose(executor.get_output(0).numpy(), expected(0.1 * (i + 1)), rtol=1e-5)


def add(name: str, shape: Any, target: str = "llvm") -> Any:
    a = te.placeholder(shape, name="A", dtype="int8")
    return tvm.build(
        te.create_prim_func([a, te.compute(shape, lambda *i: a(*i) + tvm.tir.const(1, "int8"), name="B")]),
        target=target,
        name=name,
    )


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_functions(target: str, tmp_path: Path) -> None:
    export_model_library_format(add("add", (2,), target), tmp_path / "m.tar")
    files = unpacked(tmp_path / "m.tar", tmp_path / "m")
    assert "src/tir-1.txt" in files
    facts = described(tmp_path / "m")["add"]
    assert facts["style"] == "operator" and facts["executors"] == []
    one = {"size_bytes": 2, "shape": [2], "dtype": "int8"}
    assert facts["memory"] == {"add": [{**one, "input_binding": "A"}, {**one, "input_binding": "B"}]}
    out = runtime.empty((2,), "int8")
    runtime.load_module(tmp_path / "m.tar")["add"](runtime.array(np.array([1, 2], "int8")), out)
    assert out.numpy().tolist() == [2, 3]


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "m.tar"
    with pytest.raises(ValueError, match="Multiple modules should have unique names, but two are called 'default'"):
        export_model_library_format([model(1, "llvm"), model(1, "llvm")], path)
    two = {tvm.cpu(0): "llvm", tvm.cpu(1): "llvm -mcpu=haswell"}
    x = relay.var("x", shape=(2,))
    spread = tvm.IRModule.from_expr(relay.exp(relay.annotation.on_device(relay.exp(x), tvm.cpu(1))))
    with pytest.raises(UnsupportedInModelLibraryFormatError, match="runs on 2 devices, but a package is for one"):
        export_model_library_format(relay.build(spread, two), path)
    with pytest.raises(UnsupportedInModelLibraryFormatError, match="but the target is 'interp'; compile for c or llvm"):
        export_model_library_format(relay.build(tvm.IRModule.from_expr(relay.exp(x)), "interp"), path)
    with pytest.raises(
        UnsupportedInModelLibraryFormatError, match="but was given a module of the kind 'static_library'"
    ):
        (tmp_path / "x.o").write_bytes(b"")
        export_model_library_format(runtime.load_static_library(tmp_path / "x.o", []), path)
    with pytest.raises(NonStaticShapeError, match="the function add has dimensions that are known at run time only"):
        export_model_library_format(add("add", (te.var("n"),)), path)
    assert not path.exists()


def test_header_of_a_program_of_your_own(tmp_path: Path) -> None:
    pool = SimpleNamespace(pool_info=SimpleNamespace(pool_name="sram"), allocated_size=48)
    path = generate_c_interface_header(
        "ultimate_cat_spotter", ["input"], ["output"], {"sram_var": pool}, {}, ["npu"], 0, tmp_path, {"input": 4}, {"output": 8}
    )  # fmt: skip
    text = Path(path).read_text()
    assert Path(path).name == "tvmgen_ultimate_cat_spotter.h"
    for line in (
        "#define TVMGEN_ULTIMATE_CAT_SPOTTER_INPUT_SIZE 4",
        "#define TVMGEN_ULTIMATE_CAT_SPOTTER_SRAM_WORKSPACE_POOL_SIZE 48",
        "struct tvmgen_ultimate_cat_spotter_devices {",
        "int32_t tvmgen_ultimate_cat_spotter_run(struct tvmgen_ultimate_cat_spotter_inputs* inputs, struct"
        " tvmgen_ultimate_cat_spotter_outputs* outputs, struct tvmgen_ultimate_cat_spotter_workspace_pools* workspace_pools, struct"
        " tvmgen_ultimate_cat_spotter_devices* devices);",
    ):
        assert line in text
    subprocess.run([*compiler_command("c"), "-x", "c", "-std=c99", "-fsyntax-only", path], check=True)


def test_command(tmp_path: Path) -> None:
    model_file = dense_model(tmp_path / "dense.onnx")
    done = command("package", model_file, "--target", "c", "-o", tmp_path / "m.tar")
    assert done.code == 0, done.err
    assert "workspace" in done.out and "constants" in done.out
    facts = json.loads(command("inspect", tmp_path / "m.tar", "--json").out)
    assert facts["format"] == "model library format" and facts["modules"]["default"]["executors"] == ["aot"]
    assert "codegen/host/include/tvmgen_default.h" in facts["files"]
    shown = command("inspect", tmp_path / "m.tar")
    assert shown.code == 0 and "tvmgen_default_fused_" in shown.out
    board = command(
        "package", model_file, "--target", "raspberry-pi/5", "--executor", "graph", "-o", tmp_path / "b.tar", "--json"
    )
    assert json.loads(board.out)["modules"]["default"]["executors"] == ["graph"]
    refused = command("package", model_file, "--interface", "c", "-o", tmp_path / "m.tar")
    assert "--interface c is for C source: give --target c, or --source" in refused.err
    assert command("package", model_file, "--source", "--target", "raspberry-pi/5", "-o", tmp_path / "s.tar").code == 0
    assert "must be .tar" in command("package", model_file, "-o", tmp_path / "m.so").err
    (tmp_path / "metadata.json").write_text('{"version": 3}')
    with tarfile.open(tmp_path / "old.tar", "w") as tar:
        tar.add(tmp_path / "metadata.json", "./metadata.json")
    assert "is a package of version 3, but version 7 is read" in command("inspect", tmp_path / "old.tar").err


def test_a_program_for_the_virtual_machine_is_none(tmp_path: Path) -> None:
    with pytest.raises(TVMError, match="was given a"):
        export_model_library_format(object(), tmp_path / "m.tar")  # type: ignore[arg-type]
