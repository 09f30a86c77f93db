"""`tvmc compile` and `tvmc run`, here and over RPC; what they say of wrong command lines, files and boards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import dense_model, relu_model
from tests.driver.tvmc.command import told, tvmc
from tilewright import rpc
from tilewright.driver.tvmc import TVMCPackage
from tilewright.support.object_kind import ObjectKind
from tilewright.target import Target

TABLE = "Execution time summary:\n mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)   \n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its package, and inputs."""
    folder = tmp_path_factory.mktemp("tvmc")
    dense_model(folder / "dense.onnx")
    relu_model(folder / "any.onnx", ["n", 4])
    np.savez(folder / "x.npz", x=np.linspace(-1, 1, 128, dtype="float32").reshape(4, 32))
    np.savez(folder / "any.npz", x=np.arange(-6, 6, dtype="float32").reshape(3, 4))
    assert tvmc("compile", folder / "dense.onnx", "-o", folder / "dense.tar") == (0, "", "")
    assert tvmc("compile", folder / "any.onnx", "--use-vm", "-o", folder / "any.tar") == (0, "", "")
    return folder


def members(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def outputs(place: Path, package: Path, *options: str | Path) -> dict[str, np.ndarray]:
    assert tvmc("run", package, "-o", place / "out.npz", *options).code == 0
    with np.load(place / "out.npz") as found:
        return dict(found)


def test_a_package_is_run(place: Path) -> None:
    assert members(place / "dense.tar") == ["mod.so", "mod.json", "mod.params"]
    done = tvmc("run", place / "dense.tar", "-i", place / "x.npz", "--print-time", "--repeat", "3", "--print-top", "2")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(TABLE)
    best = np.array([[float(v) for v in row.strip(" []").split()] for row in done.out.rstrip().splitlines()[-2:]])
    found = outputs(place, place / "dense.tar", "-i", place / "x.npz")
    assert list(found) == ["output_0"] and found["output_0"].shape == (4, 8)
    row = found["output_0"][0]
    np.testing.assert_allclose(best, [np.argsort(row)[::-1][:2], np.sort(row)[::-1][:2]], rtol=1e-5)


def test_commands_are_listed_in_the_order_of_use() -> None:
    shown = tvmc("--help").out.partition("commands:")[2].partition("examples:")[0]
    assert [line.split()[0] for line in shown.splitlines()[2:] if line.strip()] == ["compile", "run", "tune", "micro"]


def test_options_may_be_shortened(place: Path) -> None:
    """The classic tutorial writes `tvmc run --output`."""
    options = ["--inputs", place / "x.npz", "--output", place / "short.npz"]
    assert tvmc("run", *options, place / "dense.tar") == (0, "", "")
    with np.load(place / "short.npz") as found:
        assert found["output_0"].shape == (4, 8)


def test_inputs_are_filled(place: Path) -> None:
    assert not outputs(place, place / "dense.tar", "--fill-mode", "zeros")["output_0"].any()
    ones = [outputs(place, place / "dense.tar", "--fill-mode", "ones")["output_0"] for _ in range(2)]
    assert ones[0].any() and np.array_equal(*ones)


def test_kernels_are_timed(place: Path) -> None:
    for package, given, executor in (("dense", "x", "Graph"), ("any", "any", "VM")):
        done = tvmc("run", place / f"{package}.tar", "-i", place / f"{given}.npz", "--profile")
        assert done.code == 0 and done.out.startswith("Name ") and f"Executor: {executor}\n" in done.out


@pytest.mark.parametrize("executor", ["graph", "aot", "graph with params", "mod_name", "c", "vm"])
def test_executors_agree(place: Path, executor: str) -> None:
    options = {
        "graph": ["--executor", "graph"],
        "aot": ["--executor", "aot", "--runtime", "cpp"],
        "graph with params": ["--executor", "graph", "--executor-graph-link-params", "1"],
        "mod_name": ["--module-name", "net", "--executor=aot", "--executor-aot-link-params=true", "-O", "2"],
        "c": ["--target=c"],
        "vm": ["--use-vm"],
    }[executor]
    made = place / "other.tar"
    assert tvmc("compile", place / "dense.onnx", "-o", made, *options) == (0, "", "")
    found = outputs(place, made, "-i", place / "x.npz")["output_0"]
    want = outputs(place, place / "dense.tar", "-i", place / "x.npz")["output_0"]
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert ("mod.json" in members(made)) == (executor in ("graph", "graph with params", "c"))


def test_dynamic_dimensions(place: Path) -> None:
    assert members(place / "any.tar") == ["lib.so"]
    found = outputs(place, place / "any.tar", "-i", place / "any.npz", "--print-time")
    assert np.array_equal(found["output_0"], np.maximum(np.arange(-6, 6).reshape(3, 4), 0))
    assert "the model takes x float32 nx4" in told("run", place / "any.tar")
    assert told("compile", place / "any.onnx", "-o", place / "no.tar").startswith("the model has dynamic dimensions")
    pinned = ["--input-shapes", "x:[3, 4]", "-o", place / "pinned.tar"]
    assert tvmc("compile", place / "any.onnx", *pinned).code == 0
    assert outputs(place, place / "pinned.tar", "-i", place / "any.npz")["output_0"].shape == (3, 4)


def test_code_is_dumped(place: Path) -> None:
    made = place / "dumped.tar"
    assert tvmc("compile", place / "dense.onnx", "-o", made, "--dump-code", "relay, ll,tir,asm").code == 0
    for form, word in {"relay": "def @main", "ll": "define ", "tir": "T.prim_func", "asm": ".text"}.items():
        assert word in Path(f"{made}.{form}").read_text()
    assert "--dump-code ptx: " in told("compile", place / "dense.onnx", "-o", made, "--dump-code", "ptx")


def test_another_machine(place: Path) -> None:
    made = place / "board.tar"
    target = ["--target", "llvm -mtriple=aarch64-linux-gnu", "--target-llvm-mcpu=cortex-a72"]
    assert tvmc("compile", place / "dense.onnx", "-o", made, *target) == (0, "", "")
    with tarfile.open(made) as tar:
        library = tar.extractfile("mod.so")
        assert library is not None
        kind = ObjectKind.of(library.read(64))
    assert kind is not None and not kind.runs_on(ObjectKind.host() or kind)
    assert "compile it again for this machine" in told("run", made)


def test_a_cross_compiler(place: Path) -> None:
    linker = place / "linker"
    linker.write_text(f'#!/bin/sh\necho "$@" > {place}/seen\nshift 3\nexec cc -shared -o "$@"\n')
    linker.chmod(0o755)
    made = place / "crossed.tar"
    options = ["--cross-compiler", linker, "--cross-compiler-options", "-Wl,-O1 -s"]
    assert tvmc("compile", place / "dense.onnx", "-o", made, *options).code == 0
    assert (place / "seen").read_text().split()[-2:] == ["-Wl,-O1", "-s"]
    assert outputs(place, made, "-i", place / "x.npz")["output_0"].shape == (4, 8)
    assert "false -shared" in told("compile", place / "dense.onnx", "-o", made, "--cross-compiler", "false")


def test_passes(place: Path) -> None:
    base = ["compile", place / "dense.onnx", "-o", place / "passes.tar"]
    done = tvmc(
        *base, "--print-pass-times", "--print-ir-before", "FuseOps", "--disabled-pass", "FoldScaleAxis,tir.Simplify"
    )
    assert done.code == 0 and "# before FuseOps" in done.out and "FuseOps: " in done.out
    assert tvmc(*base, "--pass-config", "tir.disable_vectorize=1", "--instruments", "PassTimingInstrument").code == 0
    passed = "tir.add_lower_pass=1,tests.driver.tvmc.test_command_line.same"
    assert tvmc(*base, "--pass-config", passed).code == 0
    assert SEEN


SEEN: list[object] = []


def same(func: object, mod: object, ctx: object) -> object:
    """A pass."""
    SEEN.append(func)
    return func


def test_configurations(place: Path) -> None:
    config = place / "host.json"
    facts = {
        "targets": [{"kind": "llvm", "num-cores": 2}],
        "executor": {"kind": "aot", "link-params": True},
        "pass-config": {"tir.disable_vectorize": "1"},
        "opt-level": 2,
        "output": str(place / "configured.tar"),
    }
    config.write_text(json.dumps(facts))
    assert tvmc("--config", config, "compile", place / "dense.onnx") == (0, "", "")
    assert members(place / "configured.tar") == ["mod.so", "mod.params"]
    assert (
        tvmc(
            "compile", f"--config={config}", place / "dense.onnx", "--executor=graph", "--executor-aot-link-params=0"
        ).code
        == 4
    )
    assert tvmc("--config", "default", "--version").code == 0
    for text, message in {
        '{"optlevel": 2}': "--config: no command has an option 'optlevel'; near it: opt-level",
        '{"targets": [{}]}': '--config: a target needs a "kind", such as "llvm", but has nothing',
        "[1]": f"--config {config}: this file holds no JSON object",
        "{": f"--config {config}: this file is no JSON: ",
    }.items():
        config.write_text(text)
        assert told("--config", config, "compile", "x").startswith(message)
    assert told("--config", "nothing", "compile", "x").startswith(
        "there is no configuration 'nothing'; there are default"
    )


@pytest.fixture
def tracked() -> Iterator[str]:
    """A tracker with a server; its address."""
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
    server = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    yield f"127.0.0.1:{tracker.port}"
    server.terminate()
    tracker.terminate()


def test_a_board(place: Path, tracked: str) -> None:
    for package, given in (("dense", "x"), ("any", "any")):
        here = outputs(place, place / f"{package}.tar", "-i", place / f"{given}.npz")["output_0"]
        board = ["--rpc-tracker", tracked, "--rpc-key", "board", "-i", place / f"{given}.npz"]
        there = outputs(place, place / f"{package}.tar", *board)["output_0"]
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-5)
        done = tvmc("run", place / f"{package}.tar", *board, "--print-time", "--end-to-end", "--profile")
        assert done.code == 0 and TABLE in done.out and " cpu0 " in done.out, done.err


def test_a_guarded_server(place: Path) -> None:
    secret = place / "secret"
    secret.write_text("sixteen bytes and more")
    server = rpc.Server("127.0.0.1", 0, silent=True, key_file=secret)
    base = ["run", place / "dense.tar", "--rpc-tracker", f"127.0.0.1:{server.port}"]
    try:
        assert tvmc(*base, "--rpc-key-file", secret).code == 0
        assert "key file" in told(*base) or "key_file" in told(*base)
    finally:
        server.terminate()
    assert told(*base[:2], "--rpc-key-file", secret).startswith("--rpc-key-file needs --rpc-tracker")


def test_a_server_without_a_tracker(place: Path) -> None:
    server = rpc.Server("127.0.0.1", 0, silent=True)
    try:
        assert (
            tvmc("run", place / "dense.tar", "--rpc-tracker", f"127.0.0.1:{server.port}", "--print-top", "1").code == 0
        )
    finally:
        server.terminate()
    address = f"127.0.0.1:{server.port}"
    assert told("run", place / "dense.tar", "--rpc-tracker", address).startswith(
        f"cannot connect to the server {address}"
    )


def test_what_is_wrong(place: Path) -> None:
    model, package = place / "dense.onnx", place / "dense.tar"
    compiling = ["compile", model, "-o", place / "wrong.tar"]
    for words, message in (
        (["run", model], f"{model}: this file is no package of tvmc (.tar), or a damaged one. `tvmc compile MODEL"),
        (["run", place / "none.tar"], f"{place / 'none.tar'}: there is no such file"),
        (
            ["run", package, "-i", place / "any.npz"],
            "the input 'x' has the shape 3x4, but the model takes x float32 4x32",
        ),
        (["run", package, "-i", model], "Error loading inputs file: "),
        (["run", package, "--device", "cuda"], "the device cuda(0) does not exist, or there is no driver for it"),
        (
            ["run", package, "--device", "micro"],
            f"{package} is no project: it has no microtvm_api_server.py; `tvmc micro",
        ),
        (["run", package, "--project-option", "a=b"], "--list-options and --project-option are of projects"),
        (["run", package, "--rpc-key", "board"], "--rpc-key needs --rpc-tracker"),
        (["run", package, "--rpc-tracker", ":::"], "--rpc-tracker takes HOST:PORT, such as 192.168.0.10:9190, but was"),
        (["run", package, "-o", place / "no" / "out.npz"], f"--outputs {place / 'no' / 'out.npz'}: the folder"),
        (["compile", place / "none.onnx"], f"Input file '{place / 'none.onnx'}' doesn't exist, or is a broken"),
        (["compile", package], f"failed to infer the model format of {package}. Please specify --model-format: keras,"),
        ([*compiling, "--model-format", "tflite"], ""),
        (["compile", model, "-o", place / "no" / "out.tar"], f"--output {place / 'no' / 'out.tar'}: the folder"),
        ([*compiling, "--target", "llvn"], "--target: there is no target kind 'llvn'; nearest known: llvm"),
        ([*compiling, "--target", "vulkan"], "relay.build: there is no code generator for target kind 'vulkan'"),
        ([*compiling, "--target-c-mcpu=cortex-m7"], "Passed --target-c-mcpu but did not specify c target"),
        (
            [*compiling, "--executor-aot-link-params=1"],
            "Passed --executor-aot-link-params but did not specify aot executor",
        ),
        (
            [*compiling, "--pass-config", "tir.disable_vectorise=1"],
            "there is no option of passes 'tir.disable_vectorise'; near",
        ),
        ([*compiling, "--pass-config", "tir.disable_vectorize"], "--pass-config takes name=value, such as tir.disable"),
        ([*compiling, "--instruments", "None"], "no function 'tilewright.ir.instrument.None'"),
        ([*compiling, "--tuning-records", "none.json"], "the log none.json cannot be read: No such file or directory"),
        ([*compiling, "--input-shapes", "y:[1,2]"], ""),
        (["tune", model, "-o", "r.json", "--target", "llvm", "--tasks", "x"], '--tasks takes "all", "list" or numbers'),
        (
            ["tune", model, "-o", "r.json", "--target", "llvm", "--tasks", "7"],
            "--tasks 7: there are 2 tasks, from 0 to 1",
        ),
        (["tune", model, "-o", "r.json", "--target", "llvm", "--rpc-tracker", "farm:9190"], "boards need a key"),
        (
            ["tune", model, "-o", "r.json", "--target", "llvm -mtriple=aarch64-linux-gnu"],
            f"{Target('llvm -mtriple=aarch64-linux-gnu')} is not this",
        ),
        (["micro"], "tvmc micro needs a command: create-project, build or flash"),
        (
            ["micro", "build", place],
            f"{place} is no project: it has no microtvm_api_server.py; `tvmc micro create-project",
        ),
    ):
        assert told(*words).startswith(message), words
    for words, message in (
        (["compile"], "tvmc compile: error: the following arguments are required: FILE"),
        ([*compiling, "--executor", "vm"], "--executor: invalid choice: 'vm'"),
        ([*compiling, "--executor-aot-link-params=maybe"], "'maybe' is none of 1, true, 0, false"),
        ([*compiling, "--disabled-pass", "FuseOp"], "there is no pass 'FuseOp'"),
        (
            [*compiling, "--input-shapes", "x[1]"],
            'have the form "input_name:[dim1,dim2,...,dimn] input_name2:[dim1,dim2]"',
        ),
        (["run", package, "--repeat", "0"], "'0' is no number above 0"),
    ):
        assert message in told(*words, code=2), words
    assert not (place / "wrong.tar").exists()


def test_functions_for_programs_without_the_runtime(place: Path) -> None:
    options = ["--target=c", "--executor=aot", "--executor-aot-unpacked-api=1"]
    wrong = told("compile", place / "dense.onnx", "-o", place / "crt.tar", *options)
    assert wrong.endswith('pass runtime=Runtime("crt") with it')
    assert tvmc("compile", place / "dense.onnx", "-o", place / "crt.tar", *options, "--runtime=crt").code == 0
    assert told("run", place / "crt.tar").endswith("nothing that runs them; compile it with --runtime cpp")


def test_the_model_library_format(place: Path) -> None:
    base = ["compile", place / "dense.onnx", "-o", place / "library.tar", "--output-format=mlf"]
    assert tvmc(*base, "--target=c", "--executor=aot", "--executor-aot-unpacked-api=1", "--runtime=crt") == (0, "", "")
    names = [name.removeprefix("./") for name in members(place / "library.tar")]
    assert "metadata.json" in names and any([name.startswith("codegen/host/src/") for name in names])
    package = TVMCPackage(place / "library.tar")
    assert (package.type, package.executor_type, package.graph, package.lib_path) == ("mlf", "aot", None, None)
    assert told("run", place / "library.tar").startswith("this package is in the model library format (MLF)")
    assert tvmc(*base, "--executor=graph").code == 0
    package = TVMCPackage(place / "library.tar")
    assert package.executor_type == "graph" and package.params and '"nodes"' in str(package.graph)
    assert told(*base, "--cross-compiler", "cc").startswith("Specifying the MLF output and a cross compiler is not")
    assert told(*base, "--use-vm").startswith("programs of the virtual machine are written as 'so' or 'tar'")


def test_output_that_nobody_reads(place: Path) -> None:
    command = [sys.executable, "-m", "tilewright.driver.tvmc", "run", place / "dense.tar", "--print-top", "2"]
    for output, code, said in (("pipe", 1, ""), ("/dev/full", 4, "Error: standard output cannot be written: ")):
        reader, writer = os.pipe() if output == "pipe" else (os.open(output, os.O_RDONLY), os.open(output, os.O_WRONLY))
        os.close(reader)
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        os.close(writer)
        assert done.returncode == code and done.stderr.startswith(said) and bool(done.stderr) == bool(said), done.stderr


def test_without_a_command() -> None:
    done = tvmc()
    assert (done.code, done.out) == (1, "") and "tvmc run --inputs picture.npz" in done.err
    for command in ("compile", "run", "tune", "micro"):
        assert tvmc(command, "--help").code == 0


def test_as_a_module(place: Path) -> None:
    for module in (["tilewright.driver.tvmc"], ["tilewright.as_tvm", "-m", "tvm.driver.tvmc"]):
        done = subprocess.run(
            [sys.executable, "-m", *module, "run", place / "dense.tar", "-vvv"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "LC_ALL": "C"},
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "TVMC: the inputs are {'x': (4, 32)}" in done.stderr
