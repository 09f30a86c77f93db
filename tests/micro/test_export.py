"""Firmware: the files of a project, the report beside the linked program, and what does not fit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import BARE, built, network, quantised_network
from tilewright import micro, relay, te
from tilewright.micro.board import board, known_boards
from tilewright.micro.device_runtime import source_folder
from tilewright.micro.errors import BoardError, MicroError
from tilewright.micro.export.firmware import build
from tilewright.micro.export.makefile import model_flags
from tilewright.micro.export.project import export_project, firmware_report
from tilewright.micro.export.report import DoesNotFit, Report
from tilewright.micro.export.sources import model_files
from tilewright.micro.stack.depth import StackError
from tilewright.relay.frontend.common.builder import make_call
from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.errors import OpNotEnabled, OpNotImplemented, TVMError
from tilewright.support.linker import zig

KINDS = [("c", "bare"), ("c", "aot"), ("c", "graph"), ("llvm", "aot"), ("llvm", "graph")]


def tiny(flash: int, ram: int, **more: Any) -> dict[str, Any]:
    """A board with so many bytes."""
    memory = [
        {"name": "flash", "start": 0x08000000, "size": flash, "kind": "flash"},
        {"name": "ram", "start": 0x20000000, "size": ram, "kind": "ram"},
        *more.pop("others", ()),
    ]
    firmware = {"code": "flash", "data": "ram"}
    return {"name": "tiny", "model": "stm32f746xx", "clock_hz": 1000000, "memory": memory, "firmware": firmware, **more}


@pytest.mark.parametrize(("kind", "executor"), KINDS)
@pytest.mark.parametrize("name", ["microbit", "mps2_an500", "riscv32_virt"])
def test_projects(name: str, kind: str, executor: str, tmp_path: Path) -> None:
    report = micro.export_project(built(name, kind, executor), name, tmp_path)
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    start = "riscv" if name == "riscv32_virt" else "cortex_m"
    assert {"Makefile", "board.ld", "main.c", "report.txt", "report.json", f"runtime/start/{start}.c"} <= files
    assert ("runtime/src/graph.c" in files) == (executor == "graph")
    assert any([f.endswith(".o") for f in files]) == (kind == "llvm")
    told = json.loads((tmp_path / "report.json").read_text())
    assert (told["fits"], told["flash"], told["ram"]) == (True, report.flash, report.ram)
    assert report.fits and not report.advice() and (tmp_path / "report.txt").read_text() == report.text()
    assert [o.name for o in report.operators] == [
        "fused_nn_conv2d_nn_relu",
        "fused_nn_contrib_dense_pack",
        "fused_nn_softmax",
    ]
    assert all([o.code > 100 for o in report.operators]) and report.path[:2] == ("tw_begin", "main")
    assert "malloc" not in (tmp_path / "main.c").read_text()


def test_runtime_and_entry_are_small() -> None:
    """All of firmware that is neither kernels nor constants: start code, runtime, the ahead-of-time executor."""
    lib = built("mps2_an500", "c", "bare")
    found = board("mps2_an500")
    files = model_files(lib)
    image = build(found, files).image
    kernels = {f"{symbol}.c" for symbol in files.kernels.values()}
    others = sum(
        [
            p.size
            for p in image.places
            if p.kind in ("text", "rodata", "vectors") and p.object not in kernels and p.name != files.constants
        ]
    )
    assert 0 < others < 8192
    assert not [p.name for p in image.places if p.name in ("malloc", "calloc", "realloc", "free", "sbrk")]


def deep_network() -> Any:
    """Convolutions one after the other, with a residual: values that live at different times share their places."""
    x = relay.var("x", shape=(1, 16, 16, 8))
    y, weights = x, {}
    for k in range(4):
        w = relay.var(f"w{k}", shape=(3, 3, 8, 8))
        weights[f"w{k}"] = np.full((3, 3, 8, 8), 0.01 * (k + 1), "float32")
        z = relay.nn.conv2d(
            y, w, padding=(1, 1), channels=8, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO"
        )
        y = relay.nn.relu(z) if k != 2 else relay.nn.relu(relay.add(z, y))
    y = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y, layout="NHWC")))
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))
    return mod, weights


@pytest.fixture(scope="module")
def deep() -> Any:
    mod, weights = deep_network()
    return relay.build(mod, board("stm32f746_disco").target("c"), params=weights, mod_name="deep", **BARE)


def test_tensors_that_share_memory_live_at_different_times(deep: Any) -> None:
    report = firmware_report(deep, "stm32f746_disco")
    values = [t for t in report.tensors if t.memory == "workspace"]
    assert len(values) >= 4 and max([t.offset + t.size for t in values]) <= report.workspace
    shared = 0
    for i, one in enumerate(values):
        for other in values[:i]:
            if one.offset < other.offset + other.size and other.offset < one.offset + one.size:
                shared += 1
                assert (
                    one.first is not None
                    and one.last is not None
                    and other.first is not None
                    and other.last is not None
                )
                assert other.last <= one.first or one.last <= other.first
    assert shared > 0 and "shares with" in report.text()
    assert 0 < report.in_use(report.peak) == max([o.live for o in report.operators]) <= report.workspace
    constants = [t for t in report.tensors if t.memory == "constants"]
    assert len(constants) == 4 and all([t.size >= 2304 for t in constants])


def sums(report: Report) -> None:
    for usage in report.memories:
        assert usage.used == sum(usage.parts.values()) and usage.over == max(0, usage.used - usage.region.size)


def test_a_model_that_does_not_fit(deep: Any, tmp_path: Path) -> None:
    slow = {"name": "slow", "start": 0x60000000, "size": 0x40000, "kind": "ram"}
    with pytest.raises(DoesNotFit) as error:
        export_project(deep, tiny(4096, 12288, others=[slow]), tmp_path)
    report, text = error.value.report, str(error.value)
    sums(report)
    assert not [*tmp_path.iterdir()]
    flash, ram = report.memories[0], report.memories[1]
    assert f"flash: {flash.over} bytes too many ({flash.used} of 4096)" in text
    assert f"ram: {ram.over} bytes too many ({ram.used} of 12288)" in text
    assert f"place the workspace ({report.workspace} bytes) in slow: pools={{'workspace': 'slow'}}" in text
    assert "the workspace is largest at fused_nn_conv2d" in text and "the largest constants are p" in text
    better = firmware_report(deep, tiny(4096, 12288, others=[slow]), {"workspace": "slow"})
    sums(better)
    assert [u.region.name for u in better.memories if u.over] == ["flash"] and better.memories[2].parts == {
        "workspace": report.workspace
    }


def test_optimised_for_size(deep: Any) -> None:
    plain, small = firmware_report(deep, "stm32f746_disco"), firmware_report(deep, "stm32f746_disco", level="-Os")
    assert small.flash < plain.flash


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ({"heap": "sram"}, "a model has no pool 'heap'; it has workspace, constants"),
        ({"workspace": "psram"}, "has no memory 'psram'; it has flash, sram"),
        ({"workspace": "flash"}, "the workspace is written, but flash of stm32f746_disco is flash"),
    ],
)
def test_bad_pools(deep: Any, pools: dict[str, str], message: str) -> None:
    with pytest.raises(BoardError, match=message):
        firmware_report(deep, "stm32f746_disco", pools)


def test_what_is_no_firmware() -> None:
    mod, weights = network()
    with pytest.raises(MicroError, match="firmware is made of models for one target, c or llvm"):
        firmware_report(relay.build(mod, "interp", params=weights), "microbit")
    with pytest.raises(MicroError, match="is code of 64 bits, but microbit has 32; compile for llvm "):
        firmware_report(relay.build(mod, "llvm", params=weights), "microbit")


def test_programs_without_a_bound(deep: Any) -> None:
    found, files = board("stm32f746_disco"), model_files(deep)
    main = (
        '#include "tvmgen_deep.h"\nstatic int again(int n);\nint main(void);\nint main(void) { return again(3); }\n'
        "static __attribute__((noinline)) int again(int n) { volatile int x = n; return n > 100 ? 1 : again(n + (int)x) + (int)x; }\n"
    )
    with pytest.raises(StackError, match="the stack has no bound: again calls again; such code is no firmware"):
        Report(found, build(found, files, main=main), files, deep.metadata, {})


@pytest.mark.parametrize("name", known_boards())
def test_makefiles(name: str, tmp_path: Path) -> None:
    export_project(built(name, "c", "bare"), name, tmp_path)
    text, found = (tmp_path / "Makefile").read_text(), board(name)
    if found.architecture == "riscv":
        assert "-march=rv32im" in text and "-mabi=ilp32" in text
    else:
        unit = {"none": "-mfloat-abi=soft", "single": "-sp-d16", "double": "-mfloat-abi=hard"}[found.fpu]
        assert unit in text and f"-mcpu={found.target().mcpu} -mthumb" in text
    assert ("run: firmware.elf" in text) == (found.qemu is not None)


ARDUINO = """
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
static struct {
  void begin(int) {}
  void print(const char* text) { std::printf("%s", text); }
  void print(long value) { std::printf("%ld", value); }
  void println(unsigned long) { std::printf("\\\\n"); }
} Serial;
static unsigned long micros() { return 0; }
static void delay(int) {}
"""
PROGRAM = """
#include "arduino.h"
#include "digits.ino"
int main() {
  float* x = reinterpret_cast<float*>(input_x);
  for (int k = 0; k < 192; ++k) x[k] = 0.01f * k;
  setup();
  loop();
  for (int k = 0; k < 10; ++k) std::printf("%.9g ", static_cast<double>(reinterpret_cast<float*>(output_output)[k]));
  return 0;
}
"""


@pytest.mark.parametrize("executor", ["bare", "aot"])
def test_sketches(executor: str, tmp_path: Path) -> None:
    """The sketch as C++, with what it uses of the IDE's, run on this machine."""
    folder = tmp_path / "digits"
    path = micro.export_arduino(built("mps2_an500", "c", executor), folder)
    assert path == folder / "digits.ino"
    assert {p.name for p in folder.iterdir()} == {"digits.ino", "tvmgen_net.c", "tvmgen_net.h", "runtime.c", "micro.h"}
    (folder / "arduino.h").write_text(ARDUINO.replace("\\\\n", "\\n"))
    (folder / "main.cc").write_text(PROGRAM)
    for source in ("tvmgen_net.c", "runtime.c"):
        subprocess.run([*compiler_command("c"), "-O2", "-c", source, "-o", f"{source}.o"], cwd=folder, check=True)
    objects = ["tvmgen_net.c.o", "runtime.c.o"]
    subprocess.run(
        [*compiler_command("c++"), "-std=c++11", "-Wall", "-Werror", "main.cc", *objects, "-o", "run", "-lm"],
        cwd=folder,
        check=True,
    )
    lines = subprocess.run([folder / "run"], capture_output=True, text=True, check=True).stdout.splitlines()
    mod, weights = network()
    x = (0.01 * np.arange(192, dtype="float32")).reshape(1, 8, 8, 3)
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()[0]
    assert lines[0].startswith("code 0")
    np.testing.assert_allclose([float(v) for v in lines[1].split()], expected, rtol=1e-4, atol=1e-7)


def test_what_is_no_sketch(tmp_path: Path) -> None:
    with pytest.raises(MicroError, match="has the name of its folder, .* but is '1 sketch'"):
        micro.export_arduino(built("mps2_an500", "c", "bare"), tmp_path / "1 sketch")
    with pytest.raises(MicroError, match="for the target c and the executor aot"):
        micro.export_arduino(built("mps2_an500", "llvm", "aot"), tmp_path / "sketch")


@pytest.mark.parametrize("how", [BARE, {"executor": relay.backend.Executor("aot")}])
def test_memories_that_the_build_was_told_of(how: dict[str, Any], tmp_path: Path) -> None:
    """relay.build chooses among the memories of a board; the project places the pools there."""
    mod, weights = network()
    slow = {"name": "slow", "start": 0x60000000, "size": 0x40000, "kind": "ram"}
    found = board(tiny(0x10000, 1024, others=[slow]))
    target = found.target()
    lib = relay.build(mod, target, params=weights, mod_name="net", **found.memory_pools(target), **how)
    assert lib.metadata["memory_pools"] == {"workspace": "slow", "constants": "flash"}
    report = export_project(lib, found, tmp_path, check=False)
    assert report.memories[-1].region.name == "slow" and report.memories[-1].parts == {"workspace": report.workspace}
    script = (tmp_path / "board.ld").read_text()
    symbol = "workspace_slow" if how is BARE else "tvmgen_net_workspace"
    assert f".pool.workspace (NOLOAD) : ALIGN(8) {{ *(.bss.{symbol}) }} > slow" in script
    with pytest.raises(BoardError, match="the board microbit has no memory 'slow'; it has flash, ram"):
        firmware_report(lib, "microbit")
    moved = firmware_report(lib, found, {"workspace": "ram"})
    assert moved.memories[1].parts["workspace"] == moved.workspace


@pytest.mark.parametrize("kind", ["c", "llvm"])
@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_operators_that_python_computes(kind: str, executor: str) -> None:
    """They have no form for a board; the build says which it is, and where."""
    x = relay.var("x", shape=(4, 16))
    facts = {"shape": (4, 16), "dtype": "float32", "config": '{"node": "gamma"}'}
    y = make_call("host.call", [relay.Tuple([x])], {"function": "special.gammaln", **facts}, None)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
    message = "the node 'gamma': special.gammaln has no kernel: a Python function computes it, and cortex-m7 runs none"
    with pytest.raises(OpNotEnabled, match=message):
        relay.build(mod, board("mps2_an500").target(kind), executor=relay.backend.Executor(executor))


def test_an_instruction_without_a_form_in_c() -> None:
    a = te.placeholder((8,), name="a")
    name = "llvm.arm.mve.vabs"
    b = te.compute(
        (8,), lambda i: tvm.tir.call_llvm_pure_intrin("float32", name, tvm.tir.const(1, "uint32"), a[i]), "b"
    )
    message = r"an LLVM intrinsic has no form in C; compile for the target llvm\n.*llvm.arm.mve.vabs"
    with pytest.raises(TVMError, match=message):
        tvm.build(te.create_prim_func([a, b]), target=board("mps2_an500").target("c"), name="odd")


def test_results_whose_size_is_not_known() -> None:
    x = relay.var("x", shape=(64,), dtype="int32")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.unique(x)[0]))
    with pytest.raises(OpNotImplemented, match="relay.build makes programs of fixed sizes"):
        relay.build(mod, board("mps2_an500").target("c"), **BARE)


def several_operators() -> tuple[tvm.IRModule, int]:
    """Operators with sorts, prefixes, short and long floats; and how many there are."""
    x = relay.var("x", shape=(4, 16))
    made = [
        relay.sort(x), relay.topk(x, k=3, ret_type="values"), relay.cumsum(x, axis=1), relay.exp(relay.cast(x, "float16")),
        relay.exp(relay.cast(x, "float64")), relay.erf(x), relay.einsum([x, x], "ij,kj->ik"),
    ]  # fmt: skip
    return tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(made))), len(made)


@pytest.mark.parametrize("kind", ["c", "llvm"])
@pytest.mark.parametrize("name", ["microbit", "mps3_an547", "riscv32_virt"])
def test_operators_have_a_bound_for_their_stack(name: str, kind: str) -> None:
    """No recursion, no array whose size is known at run time only, no heap."""
    mod, count = several_operators()
    lib = relay.build(mod, board(name).target(kind), mod_name="net", executor=relay.backend.Executor("aot"))
    report = firmware_report(lib, name)
    assert report.fits and 0 < report.stack < 4096 and len(report.operators) == count
    names = {p.name for p in build(board(name), model_files(lib)).image.places}
    assert not names & {"malloc", "calloc", "realloc", "free", "sbrk"}


@pytest.mark.parametrize("which", ["float", "int8", "several"])
@pytest.mark.parametrize("how", ["bare", "aot", "graph"])
def test_the_source_of_models_has_no_warnings(which: str, how: str, tmp_path: Path) -> None:
    """By gcc and by clang, at each level of optimisation: with it, gcc follows values further."""
    mod, weights = {"float": network, "int8": quantised_network, "several": lambda: (several_operators()[0], {})}[
        which
    ]()
    options: dict[str, Any] = BARE if how == "bare" else {"executor": relay.backend.Executor(how)}
    lib = relay.build(mod, board("mps2_an500").target("c"), params=weights, mod_name="net", **options)
    files = model_files(lib)
    for path, text in {**files.sources, **files.headers}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    clang = [*(zig() or ["zig"]), "cc"]
    include = [f"-I{tmp_path}/model/include", f"-I{source_folder() / 'include'}"]
    flags = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        *[f for f in model_flags(files.flags) if not f.startswith("-O")],
    ]
    sources = [str(tmp_path / path) for path in files.sources]
    for compiler, level in ((compiler_command("c"), "-O0"), (compiler_command("c"), "-O3"), (clang, "-O1")):
        command = [*compiler, *flags, level, *include, "-c", *sources]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
