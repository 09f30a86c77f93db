"""Models compiled here, which run on boards without Python: uploaded, loaded, run and timed in sessions; and what boards refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tvm
from benchmarks import models
from tests.boards.boards import BOARDS, Board, serving, session, tilewright
from tests.driver.tvmc.command import tvmc
from tilewright.contrib import graph_executor

CLOSE = {"rtol": 2e-4, "atol": 2e-5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("boards")


@pytest.fixture(scope="module", params=list(BOARDS))
def board(request: pytest.FixtureRequest) -> Board:
    return BOARDS[request.param]


def test_the_runtime_is_small(board: Board) -> None:
    library = board.server.with_name("libtilewright_runtime.so")
    assert library.stat().st_size < 600_000


@pytest.fixture(scope="module")
def port(board: Board) -> Iterator[int]:
    """The port of its server. What a test compiles is compiled before it begins a session, whose time is limited."""
    with serving(board, "--key=board") as (_, found):
        yield found


@pytest.fixture(scope="module")
def cnn(folder: Path) -> Path:
    """A small network of convolutions."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 3, 3, 3), "w1": (32, 16, 3, 3), "w2": (10, 32)}
    weights = [numpy_helper.from_array((rng.standard_normal(s) / 5).astype("float32"), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w1"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["d"], ["e"]),
        helper.make_node("GlobalAveragePool", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("Gemm", ["g", "w2"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], ["scores"]),
    ]
    info = helper.make_tensor_value_info
    ends = [info("image", TensorProto.FLOAT, [1, 3, 32, 32])], [info("scores", TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(nodes, "cnn", *ends, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "cnn.onnx")
    return folder / "cnn.onnx"


def compiled(model: Path, target: str, output: Path, *options: str) -> Path:
    """The library `output`, the name of which says what it is: boards share what is not for one of them."""
    if output.exists():
        return output
    done = tilewright("compile", model, "--target", target, "-o", output, "--quiet", *options)
    assert done.returncode == 0, done.stderr
    return output


def run(library: object, device: tvm.Device, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    executor = graph_executor.GraphModule(library["default"](device))  # type: ignore[index]
    for name, value in inputs.items():
        executor.set_input(name, value)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def check(port: int, board: Board, model: Path, inputs: dict[str, np.ndarray], folder: Path) -> None:
    pins = [part for name, v in inputs.items() for part in ("--shape", f"{name}={','.join(map(str, v.shape))}")]
    library = compiled(model, board.target, folder / f"{model.stem}-{board.name}.so", *pins)
    own = compiled(model, "llvm", folder / f"{model.stem}-here.so", *pins)
    want = run(tvm.runtime.load_module(str(own)), tvm.cpu(), inputs)
    remote = session(port, "board")
    remote.upload(library, "model.so")
    module = remote.load_module("model.so")
    got = run(module, remote.cpu(), inputs)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)
    executor = graph_executor.GraphModule(module["default"](remote.cpu()))
    timed = executor.module.time_evaluator("run", remote.cpu(), number=2, repeat=2)()
    assert len(timed.results) == 2 and 0 < timed.mean < 60
    print(f"{board.name} {model.stem}: {1000 * timed.mean:.2f} ms a run")


def test_a_small_network(port: int, board: Board, cnn: Path, folder: Path) -> None:
    check(port, board, cnn, {"image": np.random.default_rng(1).random((1, 3, 32, 32), "float32")}, folder)


def test_a_trained_model(port: int, board: Board, folder: Path) -> None:
    check(port, board, Path(models.make("ppocr_cls")), models.inputs("ppocr_cls"), folder)


@pytest.mark.parametrize("how", ["--executor=graph", "--executor=aot", "--use-vm"])
def test_tvmc(how: str, board: Board, cnn: Path, folder: Path) -> None:
    """The classic command line compiles for a board and runs there."""
    np.savez(folder / "image.npz", image=np.random.default_rng(2).random((1, 3, 32, 32), "float32"))
    given, scores = ["--inputs", folder / "image.npz"], []
    with serving(board) as (_, port):
        for target, place in (("llvm", []), (board.target, ["--rpc-tracker", f"127.0.0.1:{port}", "--print-time"])):
            made = tvmc("compile", cnn, "--target", target, "-o", folder / "cnn.tar", how)
            assert (made.code, made.err) == (0, "")
            done = tvmc("run", folder / "cnn.tar", *given, "--outputs", folder / "scores.npz", *place)
            assert (done.code, done.err) == (0, "")
            with np.load(folder / "scores.npz") as found:
                scores.append(found["output_0"])
    assert "mean (ms)" in done.out
    np.testing.assert_allclose(*scores, **CLOSE)


def test_a_library_for_another_processor(port: int, board: Board, cnn: Path, folder: Path) -> None:
    other = BOARDS["riscv64-linux-gnu" if board.name == "x86_64-linux-gnu" else "x86_64-linux-gnu"]
    library = compiled(cnn, other.target, folder / f"cnn-{other.name}.so")
    names = other.name.split("-")[0], board.name.split("-")[0]
    refuses(port, library, f"made for {names[0]}, but this machine is {names[1]}")


def test_libraries_for_other_systems(port: int, cnn: Path, folder: Path) -> None:
    library = compiled(cnn, "llvm -mtriple=arm64-apple-darwin", folder / "cnn.dylib")
    refuses(port, library, "made for macOS, but this machine is Linux")


def refuses(port: int, library: Path, says: str) -> None:
    remote = session(port, "board")
    remote.upload(library)
    with pytest.raises(tvm.TVMError, match=f"{library.name} was {says}"):
        remote.load_module(library.name)


def test_a_processor_that_lacks_features(port: int, board: Board, cnn: Path, folder: Path) -> None:
    attribute, name = board.lacking
    library = compiled(cnn, f"{board.target} -mattr={attribute}", folder / f"cnn-{board.name}-{name}.so")
    remote = session(port, "board")
    remote.upload(library, "wide.so")
    with pytest.raises(tvm.TVMError, match=f"this machine lacks the features: {name}"):
        remote.load_module("wide.so")["default"](remote.cpu())


def test_a_damaged_library(port: int, board: Board, cnn: Path, folder: Path) -> None:
    library = compiled(cnn, board.target, folder / f"cnn-{board.name}.so").read_bytes()
    remote = session(port, "board")
    remote.upload(library[: len(library) // 2], "half.so")
    with pytest.raises(tvm.TVMError, match=r"half.so is (cut off|damaged)"):
        remote.load_module("half.so")


def test_objects_need_a_linker(board: Board, cnn: Path, folder: Path) -> None:
    compiled(cnn, board.target, folder / f"cnn-{board.name}.tar")
    with serving(Board(**{**vars(board), "environment": (("PATH", "/nothing"),)})) as (_, port):
        remote = session(port)
        remote.upload(folder / f"cnn-{board.name}.tar", "cnn.tar")
        with pytest.raises(
            tvm.TVMError, match=r'neither a compiler \(cc\) nor a linker \(ld\).*export_library\("model.so"\)'
        ):
            remote.load_module("cnn.tar")
        del remote
