"""Models exported as C: built by a C compiler, run by C programs without Python, and loaded by the runtime."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.c.test_c import network, ran, rows
from tests.relay_byoc.helpers import interpreted, registered, relu_parts
from tilewright import relay, runtime
from tilewright.ir import IRModule
from tilewright.relay.backend import Executor, Runtime
from tilewright.runtime.linking.c_source import compiler_command, include_folder
from tilewright.support.errors import TVMError

UNPACKED = {"executor": Executor("aot", {"unpacked-api": True, "interface-api": "c"}), "runtime": Runtime("crt")}
KINDS = [{}, {"executor": Executor("graph")}, UNPACKED]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unused-parameter"]
PLAIN = [*STRICT, "-pedantic", "-DTW_PLAIN_C"]
MAIN = """
#include "{header}"
#include <stdio.h>
static int64_t {memory};
int main(void) {{
  struct {name}_inputs inputs = {{{inputs}}};
  struct {name}_outputs outputs = {{{outputs}}};
  {reads}
  if ({name}_run(&inputs, &outputs)) return 1;
  {writes}
  return 0;
}}
"""


def program(header: Path, inputs: list[str], outputs: list[str], name: str = "tvmgen_default") -> str:
    """A C program that reads the inputs, one after the other, from standard input, and writes the outputs likewise."""
    both = [*inputs, *outputs]
    size = {m: f"{name}_{m}_SIZE".upper() for m in both}
    return MAIN.format(
        header=header.name,
        name=name,
        memory=", ".join([f"{m}[({size[m]} + 7) / 8]" for m in both]),
        inputs=", ".join([f".{m} = {m}" for m in inputs]) or "0",
        outputs=", ".join([f".{m} = {m}" for m in outputs]),
        reads="\n  ".join([f"if (fread({m}, 1, {size[m]}, stdin) != {size[m]}) return 2;" for m in inputs]),
        writes="\n  ".join([f"fwrite({m}, 1, {size[m]}, stdout);" for m in outputs]),
    )


def built(command: list[str], folder: Path, *arguments: str) -> Path:
    """What a compiler makes of arguments."""
    done = subprocess.run([*command, *arguments, "-o", "made"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "made"


def answers(made: Path, *arrays: np.ndarray) -> bytes:
    return subprocess.run([made], input=b"".join([a.tobytes() for a in arrays]), capture_output=True, check=True).stdout


def compiled_by(command: list[str], options: list[str], kind: dict[str, object], folder: Path) -> None:
    mod, x = network()
    relay.build(mod, "c", **kind).export_library(folder / "m.c")
    (folder / "main.c").write_text(program(folder / "m.h", ["x"], ["output"]))
    made = built(command, folder, *options, "m.c", "main.c", "-lm")
    found = np.frombuffer(answers(made, x), "float32").reshape(1, 10)
    np.testing.assert_allclose(found, ran(relay.build(mod, "llvm"), x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=["aot", "graph", "unpacked"])
def test_one_file_makes_a_program(kind: dict[str, object], tmp_path: Path) -> None:
    compiled_by(compiler_command("c"), STRICT, kind, tmp_path)


@pytest.mark.parametrize("kind", [{}, UNPACKED], ids=["aot", "unpacked"])
def test_plain_c_makes_a_program(kind: dict[str, object], tmp_path: Path) -> None:
    compiled_by(compiler_command("c"), PLAIN, kind, tmp_path)


@pytest.mark.parametrize("options", [STRICT, PLAIN], ids=["", "plain"])
def test_large_temporaries_of_a_program(options: list[str], tmp_path: Path) -> None:
    """Those that no stack holds, in a program without the runtime."""
    x = relay.var("x", shape=(2, 100_000))
    lib = relay.build(IRModule.from_expr(relay.Function([x], relay.nn.softmax(x))), "c")
    assert "tw_alloc(" in lib.get_source()
    lib.export_library(tmp_path / "m.c")
    (tmp_path / "main.c").write_text(program(tmp_path / "m.h", ["x"], ["output"]))
    given = np.random.default_rng(0).standard_normal((2, 100_000), dtype="float32")
    found = np.frombuffer(
        answers(built(compiler_command("c"), tmp_path, *options, "m.c", "main.c", "-lm"), given), "float32"
    )
    exact = np.exp(given.astype("float64"))
    np.testing.assert_allclose(found.reshape(given.shape), exact / exact.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[*STRICT, "-O2"], PLAIN], ids=["", "plain"])
@pytest.mark.parametrize("kind", KINDS, ids=["aot", "graph", "unpacked"])
def test_zig_makes_a_program(kind: dict[str, object], options: list[str], tmp_path: Path) -> None:
    compiled_by([sys.executable, "-m", "ziglang", "cc"], options, kind, tmp_path)


def test_the_runtime_loads_what_a_compiler_made_of_it(tmp_path: Path) -> None:
    mod, x = network()
    relay.build(mod, "c").export_library(tmp_path / "m.c")
    library = built(compiler_command("c"), tmp_path, "-std=c99", "-O1", "-shared", "-fPIC", "m.c", "-lm")
    np.testing.assert_allclose(
        ran(runtime.load_module(library), x), ran(relay.build(mod, "llvm"), x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("kind", [{}, UNPACKED], ids=["aot", "unpacked"])
def test_an_archive_builds(kind: dict[str, object], tmp_path: Path) -> None:
    mod, x = network()
    lib = relay.build(mod, "c", **kind)
    lib.export_library(tmp_path / "m.tar")
    with tarfile.open(tmp_path / "m.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    make = shutil.which("make")
    assert make is not None
    subprocess.run([make, "CC=" + " ".join(compiler_command("c"))], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "main.c").write_text(program(tmp_path / "include" / "tvmgen_default.h", ["x"], ["output"]))
    made = built(compiler_command("c"), tmp_path, "-Iinclude", "main.c", "libtvmgen_default.a", "-lm")
    expected = ran(relay.build(mod, "llvm"), x)
    np.testing.assert_allclose(
        np.frombuffer(answers(made, x), "float32").reshape(1, 10), expected, rtol=1e-5, atol=1e-6
    )
    if not kind:
        np.testing.assert_allclose(ran(runtime.load_module(tmp_path / "m.tar"), x), expected, rtol=1e-5, atol=1e-6)


def test_a_program_without_the_runtime_needs_nothing_of_it(tmp_path: Path) -> None:
    mod, x = network()
    lib = relay.build(mod, "c", mod_name="net", **UNPACKED)
    lib.export_library(tmp_path / "m.o")
    lib.export_library(tmp_path / "m.c")
    header = (tmp_path / "m.h").read_text()
    assert "int32_t tvmgen_net_run(struct tvmgen_net_inputs* inputs, struct tvmgen_net_outputs* outputs);" in header
    assert "int32_t tvmgen_net___tvm_main__(void* x, void* output);" in header
    symbols = subprocess.run(["nm", tmp_path / "m.o"], capture_output=True, text=True, check=True).stdout
    assert not re.findall(r" [UBDVWw] (__t|TVM)\S*", symbols), symbols
    assert re.search(r" T tvmgen_net_fused_nn_softmax\n", symbols)
    (tmp_path / "main.c").write_text(program(tmp_path / "m.h", ["x"], ["output"], "tvmgen_net"))
    made = built(compiler_command("c"), tmp_path, "main.c", "m.o", "-lm")
    np.testing.assert_allclose(
        np.frombuffer(answers(made, x), "float32").reshape(1, 10), ran(lib, x), rtol=1e-6, atol=1e-7
    )


def test_names_types_and_several_outputs(tmp_path: Path) -> None:
    x = relay.var("in:0", shape=(3,), dtype="int64")
    y = relay.var("int", shape=(3,), dtype="uint8")
    both = relay.Tuple([relay.cast(x, "int32") + relay.cast(y, "int32"), relay.greater(x, relay.cast(y, "int64"))])
    lib = relay.build(IRModule.from_expr(relay.Function([x, y], both)), "c")
    lib.export_library(tmp_path / "m.c")
    (tmp_path / "main.c").write_text(program(tmp_path / "m.h", ["in_0", "v_int"], ["output0", "output1"]))
    made = built(compiler_command("c"), tmp_path, *STRICT, "m.c", "main.c")
    found = answers(made, np.array([-5, 2, 300]), np.array([7, 1, 255], "uint8"))
    np.testing.assert_array_equal(np.frombuffer(found[:12], "int32"), [2, 3, 555])
    assert found[12:] == bytes([0, 1, 1])


def test_every_byte_of_constants(tmp_path: Path) -> None:
    values = np.concatenate([np.arange(256), np.random.default_rng(0).integers(0, 256, 5000)]).astype("uint8")
    x = relay.var("x", shape=values.shape, dtype="uint8")
    lib = relay.build(IRModule.from_expr(relay.Function([x], x + relay.const(values))), "c")
    lib.export_library(tmp_path / "m.c")
    (tmp_path / "main.c").write_text(program(tmp_path / "m.h", ["x"], ["output"]))
    made = built(compiler_command("c"), tmp_path, *STRICT, "-pedantic", "-Wno-overlength-strings", "m.c", "main.c")
    assert answers(made, np.zeros_like(values)) == values.tobytes()


def test_a_function_as_c(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, 40, dtype="float32").reshape(5, 8)
    made = tvm.build(rows(), target="c", name="twice")
    made.export_library(tmp_path / "f.c")
    made.export_library(tmp_path / "f.tar")
    library = built(compiler_command("c"), tmp_path, "-std=c99", "-shared", "-fPIC", "f.c", "-lm")
    for path in (library, tmp_path / "f.tar"):
        out = tvm.nd.empty((5, 8))
        runtime.load_module(path)["twice"](tvm.nd.array(x), out)
        np.testing.assert_allclose(out.numpy(), 2 * np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("form", ["so", "tar", "c"])
def test_a_library_that_registers_itself(form: str, tmp_path: Path) -> None:
    mod, x = network()
    lib = relay.build(mod, "c", runtime=Runtime("cpp", {"system-lib": True}))
    path = tmp_path / f"net.{form}"
    lib.export_library(path)
    if form == "c":
        path = built(compiler_command("c"), tmp_path, "-std=c99", "-shared", "-fPIC", "net.c", "-lm")
    np.save(tmp_path / "x.npy", x)
    loading = (
        f"runtime.load_module({str(path)!r})" if form != "c" else f"ctypes.CDLL({str(path)!r}, ctypes.RTLD_GLOBAL)"
    )
    code = (
        "import ctypes, numpy as np; from tilewright import runtime\n"
        "from tilewright.runtime import libinfo\n"
        "ctypes.CDLL(libinfo.find_lib_path()[0], ctypes.RTLD_GLOBAL)\n"
        f"loaded = {loading}\n"
        "m = runtime.system_lib()['default'](runtime.cpu(0))\n"
        f"m['set_input']('x', np.load({str(tmp_path / 'x.npy')!r})); m['run'](); print(m['get_output'](0).numpy().tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(eval(done.stdout), ran(relay.build(mod, "llvm"), x), rtol=1e-5, atol=1e-6)


@pytest.mark.llvm
def test_options_that_do_not_fit() -> None:
    mod, _ = network()
    for target, executor, run_by, text in (
        (
            "c",
            Executor("aot", {"unpacked-api": True}),
            None,
            r'"unpacked-api" .* pass runtime=Runtime\("crt"\) with it',
        ),
        (
            "c",
            Executor("aot", {"interface-api": "c"}),
            None,
            r'"interface-api" .* pass runtime=Runtime\("crt"\) with it',
        ),
        ("c", Executor("aot", {"interface-api": "c"}), Runtime("crt"), 'needs "unpacked-api": True'),
        ("c", Executor("aot", {"interface-api": "d"}), Runtime("crt"), 'must be "c" or "packed", but is \'d\''),
        (
            "llvm",
            UNPACKED["executor"],
            Runtime("crt"),
            "target kind 'llvm' are not written so; compile for the target c",
        ),
    ):
        with pytest.raises(TVMError, match=text):
            relay.build(mod, target, executor=executor, runtime=run_by)


def test_code_of_others_is_no_part_of_one_file(tmp_path: Path) -> None:
    with registered(a=interpreted), pytest.raises(TVMError, match="external code generators made the functions .*_0"):
        relay.build(relu_parts(), "c").export_library(tmp_path / "m.c")


def test_a_refused_archive_shows_the_words_of_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("int f( {\n")
    with tarfile.open(tmp_path / "m.tar", "w") as tar:
        tar.add(tmp_path / "code.c", "src/code.c")
    with pytest.raises(TVMError, match="(?s)does not compile: .*error.*the source is kept in") as caught:
        runtime.load_module(tmp_path / "m.tar")
    kept = Path(re.search(r"kept in (.*);", str(caught.value))[1])
    kept.unlink()
    kept.parent.rmdir()


def test_the_header_is_the_one_that_is_installed(tmp_path: Path) -> None:
    tvm.build(rows(), target="c").export_library(tmp_path / "f.tar")
    with tarfile.open(tmp_path / "f.tar") as tar:
        held = tar.extractfile("include/tilewright/kernel.h")
        assert held is not None
        assert held.read() == Path(include_folder(), "tilewright", "kernel.h").read_bytes()
