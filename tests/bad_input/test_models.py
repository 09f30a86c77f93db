"""Model files and options that `compile` cannot take."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.cli.command import command, dense_model, relu_model, write_model
from tilewright.codegen.backend import back_ends


def refused(*args: str | Path, code: int = 1) -> str:
    """The message of a command that must fail, and leave no output."""
    before = set(os.listdir())
    done = command(*args)
    assert done.code == code and not done.out, (done.code, done.out, done.err)
    assert set(os.listdir()) == before
    return done.err


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_truncated() -> None:
    dense_model(Path("m.onnx"))
    data = Path("m.onnx").read_bytes()
    Path("cut.onnx").write_bytes(data[:5000])
    assert refused("compile", "cut.onnx", "-o", "m.so") == (
        "error: cut.onnx: this is no ONNX model, or a truncated one: its 5000 bytes do not parse (Error parsing message with type"
        " 'onnx.ModelProto': Wire format was corrupt). Compare its size with the original's, and copy or export it again\n"
    )


def test_truncated_anywhere() -> None:
    """Never a crash, a traceback or a library, wherever the file ends."""
    relu_model(Path("m.onnx"), [2, 3])
    data = Path("m.onnx").read_bytes()
    for size in range(len(data)):
        Path("cut.onnx").write_bytes(data[:size])
        done = command("compile", "cut.onnx", "-o", "m.so")
        if done.code == 0:
            # The end of the file holds only the operator sets, which have a default.
            assert size > len(data) - 30
            os.unlink("m.so")
        else:
            assert done.code == 1 and done.err.startswith("error: cut.onnx: "), done.err


def test_damaged_anywhere() -> None:
    """A changed byte gives a model or a message, never a crash or a traceback."""
    relu_model(Path("m.onnx"), [2, 3])
    data = bytearray(Path("m.onnx").read_bytes())
    for at in range(len(data)):
        Path("bad.onnx").write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        done = command("compile", "bad.onnx", "-o", "m.so")
        assert done.code in (0, 1), done.err
        assert done.code == 0 or done.err.startswith("error: "), done.err


def test_random_bytes() -> None:
    Path("random.onnx").write_bytes(np.random.default_rng(0).bytes(4000))
    assert refused("compile", "random.onnx", "-o", "m.so") == (
        "error: random.onnx: this is no ONNX model, or a truncated one: its 4000 bytes do not parse (Error parsing message with type"
        " 'onnx.ModelProto': Wire format was corrupt). Compare its size with the original's, and copy or export it again\n"
    )


def test_empty() -> None:
    Path("empty.onnx").write_bytes(b"")
    assert refused("compile", "empty.onnx", "-o", "m.so") == (
        "error: empty.onnx: this is no ONNX model: its 0 bytes hold neither an operator set nor a graph. Give a file that"
        " onnx.checker.check_model accepts\n"
    )


def test_missing() -> None:
    assert refused("compile", "nothing.onnx", "-o", "m.so", code=2) == (
        "Usage: tilewright compile [OPTIONS] MODEL\nTry 'tilewright compile --help' for help.\n\n"
        "Error: Invalid value for 'MODEL': Path 'nothing.onnx' does not exist.\n"
    )


def test_all_unsupported_operators_at_once() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="frob1", domain="com.acme"),
        helper.make_node("StringNormaliser", ["a"], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Frobnicate", ["c"], ["y"], name="frob2", domain="com.acme"),
    ]
    write_model(Path("m.onnx"), nodes, {"x": [2, 3]}, ["y"])
    assert refused("compile", "m.onnx", "-o", "m.so") == (
        "error: m.onnx (opset 18): 2 things are not supported\n"
        "  StringNormaliser (1 node: 'norm'); nearest supported: StringNormalizer\n"
        "  com.acme::Frobnicate (2 nodes: 'frob1', 'frob2')\n"
    )


def test_graph_that_reads_what_nothing_makes() -> None:
    write_model(Path("m.onnx"), [helper.make_node("Relu", ["zz"], ["y"])], {"x": [2, 3]}, ["y"])
    assert refused("compile", "m.onnx", "-o", "m.so") == (
        "error: m.onnx: Relu 'y' reads the tensor 'zz', which no node before it makes. The graph is incomplete, or a circle;"
        " onnx.checker.check_model shows where\n"
    )


def test_shapes_that_do_not_fit_together() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")]
    write_model(Path("m.onnx"), nodes, {"x": [2, 3]}, ["y"], {"w": np.ones((4, 2))})
    assert refused("compile", "m.onnx", "-o", "m.so") == (
        "error: m.onnx: MatMul 'mm': nn.matmul, argument 1 (tensor_b): the inner dimensions must be equal, but they are 3 and 4\n"
        "  in nn.matmul(%x, meta[relay.Constant][0] /* ty=Tensor[(4, 2), float32] */)\n"
        "     tensor_a: Tensor[(2, 3), float32]\n"
        "     tensor_b: Tensor[(4, 2), float32]\n"
    )


DYNAMIC = [
    (
        ("--executor", "aot"),
        "error: m.onnx: --executor aot needs static dimensions and a fixed order of kernels, but the model has dynamic dimensions:"
        " x (n, 3); use --executor vm, or pin them, such as --shape x=1,3\n",
    ),
    (("--shape", "y=1,3"), "error: m.onnx: shape names 'y', but the model's inputs are 'x' (n, 3)\n"),
    (("--shape", "x=1,3,4"), "error: m.onnx: the input 'x' has 2 axes (n, 3), but shape gives it 3: (1, 3, 4)\n"),
    (
        ("--shape", "x=1,4"),
        "error: m.onnx: axis 1 of the input 'x' is declared 3, but shape gives it 4. The declared shape is (n, 3)\n",
    ),
]


@pytest.mark.parametrize(("options", "text"), DYNAMIC)
def test_shapes(options: tuple[str, ...], text: str) -> None:
    relu_model(Path("m.onnx"), ["n", 3])
    assert refused("compile", "m.onnx", *options, "-o", "m.so") == text


@pytest.mark.parametrize("value", ["x", "x=", "=1,2", "x=1,a", "x=-1,3"])
def test_form_of_shapes(value: str) -> None:
    relu_model(Path("m.onnx"), ["n", 3])
    text = refused("compile", "m.onnx", "--shape", value, "-o", "m.so", code=2 if value != "x=" else 1)
    if value != "x=":
        assert text.splitlines()[-1] == (
            f"Error: Invalid value for '--shape': {value!r} is not of the form NAME=D0,D1,... with sizes >= 0, such as x=1,3,48,320"
        )


TARGETS = [
    (
        "lvm",
        "there is no target kind 'lvm'; nearest known: llvm. Kinds: c, composite, cuda, ext_dev, hexagon, hybrid, interp, llvm,"
        " metal, nvptx, opencl, rocm, vulkan; a triple, such as aarch64-linux-gnu, and a machine that `tilewright targets` lists"
        " are targets too",
    ),
    (
        "vulkan",
        "tilewright compile: there is no code generator for target kind 'vulkan'; there are ones for "
        + ", ".join(sorted(back_ends())),
    ),
    (
        "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx51",
        "-mcpu=skylake-avx51 is no CPU of x86_64-unknown-linux-gnu that LLVM knows; nearest known: skylake-avx512, skylake_avx512,"
        " skylake. -mcpu=generic takes the architecture's baseline; leave -mcpu away for this machine",
    ),
    (
        "llvm -mtriple=x86_64-unknown-linux-gnu -mattr=+avx513f",
        "-mattr=+avx513f: x86_64-unknown-linux-gnu has no CPU feature 'avx513f'; nearest known: avx512f, avx512ifma, avx512fp16,"
        " avx512bf16",
    ),
    (
        "llvm -mtriple=banana",
        'LLVM has no target for -mtriple=banana (No available targets are compatible with triple "banana"); give one such as'
        " x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu",
    ),
]


@pytest.mark.parametrize(("target", "text"), TARGETS)
def test_targets(target: str, text: str) -> None:
    relu_model(Path("m.onnx"), [2, 3])
    assert refused("compile", "m.onnx", "--target", target, "-o", "m.so") == f"error: {text}\n"


def test_option_of_a_target() -> None:
    relu_model(Path("m.onnx"), [2, 3])
    assert refused("compile", "m.onnx", "--target", "llvm -mfloat=hard", "-o", "m.so").startswith(
        "error: target kind 'llvm' has no option -mfloat; nearest known: mfloat-abi, mattr. Options: constants-byte-alignment, "
    )


def test_output_names() -> None:
    relu_model(Path("m.onnx"), [2, 3])
    os.mkdir("folder.so")
    assert refused("compile", "m.onnx", "-o", "no/m.so") == (
        "error: --output no/m.so: the folder no does not exist; create it first\n"
    )
    assert refused("compile", "m.onnx", "-o", "m.bin") == (
        "error: --output m.bin: the suffix is .bin, but must be .so, .dylib, .dll, .wasm, .a, .tar, .o, .ll or .s\n"
    )
    assert refused("compile", "m.onnx", "-o", "folder.so", code=2).endswith(
        "Error: Invalid value for '-o' / '--output': File 'folder.so' is a directory.\n"
    )


def test_command_misspelt() -> None:
    assert refused("compil", code=2).endswith(
        "Error: No such command 'compil'. (Did you mean one of: 'compare', 'compile', 'completion'?)\n"
    )


def test_a_defect_says_so_and_keeps_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import relay

    def broken(*args: object, **options: object) -> None:
        raise KeyError("stage 3")

    monkeypatch.setattr(relay, "build", broken)
    monkeypatch.setenv("TMPDIR", os.getcwd())
    monkeypatch.setattr("tempfile.tempdir", None)
    relu_model(Path("m.onnx"), [2, 3])
    done = command("compile", "m.onnx", "-o", "m.so")
    (kept,) = Path().glob("tilewright-*.txt")
    assert done.code == 70 and done.err == (
        "error: the compiler failed unexpectedly\n"
        f"This is a defect of the compiler, not of your model: please report it with {kept.absolute()},"
        " which says where it happened.\n"
    )
    assert "tilewright compile m.onnx -o m.so" in kept.read_text() and "in broken" in kept.read_text()
