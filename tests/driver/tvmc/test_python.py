"""tvmc from Python: models of all formats, packages, results."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.cli.command import dense_model, relu_model, write_model
from tilewright import relay
from tilewright.driver import tvmc
from tilewright.driver.tvmc import frontends, runner
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.tuning import log
from tilewright.tuning.record import Record, load


def torch_script(path: Path) -> None:
    import torch

    torch.manual_seed(0)
    torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(-1)).eval(), torch.zeros(2, 4)).save(
        path
    )


def exported_program(path: Path) -> None:
    import torch

    torch.export.save(torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.zeros(2, 4),)), path)


def tflite(path: Path) -> None:
    from tests.frontend.tflite.ops.samples import SAMPLES

    path.write_bytes(SAMPLES["FULLY_CONNECTED"](1)[0])


def frozen_graph(path: Path) -> None:
    from tests.frontend.tensorflow.test_operators import constant, graph_of

    weight = constant("w", np.ones((4, 3)), "float32")
    product = ("MatMul", "y", ("x", "w"), {"transpose_a": False, "transpose_b": False})
    path.write_bytes(graph_of(weight, product).SerializeToString())


def keras_model(path: Path) -> None:
    from tests.frontend.keras.models import keras

    x = keras.Input((4,), name="x", batch_size=2)
    keras.Model(x, keras.layers.Dense(3)(x)).save(path)


def relay_text(path: Path) -> None:
    path.write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32]) { nn.dense(%x, %w) }\n'
    )


FORMATS: dict[str, tuple[Callable[[Path], object], dict[str, list[int]] | None]] = {
    "net.onnx": (dense_model, None),
    "net.pth": (torch_script, {"x": [2, 4]}),
    "net.pt2": (exported_program, None),
    "net.tflite": (tflite, None),
    "net.pb": (frozen_graph, None),
    "net.keras": (keras_model, None),
    "net.h5": (keras_model, None),
    "net.relay": (relay_text, {"x": [2, 4]}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str, tmp_path: Path) -> None:
    write, shapes = FORMATS[name]
    write(tmp_path / name)
    if name == "net.pth":
        with pytest.raises(tvmc.TVMCException, match="--input-shapes must be specified for pytorch"):
            tvmc.load(str(tmp_path / name))
        shapes = {"input": [2, 4]}
    model = tvmc.load(str(tmp_path / name), shape_dict=shapes)
    result = tvmc.run(tvmc.compile(model, target="llvm"), device="cpu", fill_mode="ones")
    (found,) = result.outputs.values()
    main: Any = relay.transform.InferType()(model.mod)["main"]
    assert list(found.shape) == [int(d) for d in main.checked_type.ret_type.shape]


def test_formats_by_name(tmp_path: Path) -> None:
    dense_model(tmp_path / "net.bin")
    assert frontends.get_frontend_names() == ["keras", "onnx", "pb", "tflite", "pytorch", "paddle", "relay"]
    assert isinstance(frontends.guess_frontend("a/b.ONNX"), frontends.OnnxFrontend)
    with pytest.raises(tvmc.TVMCException, match="failed to infer the model format"):
        tvmc.load(str(tmp_path / "net.bin"))
    model = tvmc.load(str(tmp_path / "net.bin"), model_format="onnx", freeze_params=False)
    assert set(model.params) == {"w0", "w1"}
    with pytest.raises(tvmc.TVMCException, match="unrecognized frontend 'mxnet'. Choose from: keras, onnx"):
        frontends.get_frontend_by_name("mxnet")
    with pytest.raises(TVMError, match="net.pdmodel: No such file"):
        frontends.PaddleFrontend().load("net.pdmodel")
    with pytest.raises(tvmc.TVMCException, match="Input file 'none.onnx' doesn't exist"):
        tvmc.load("none.onnx")
    with pytest.raises(tvmc.TVMCImportError, match="no_such_package"):
        frontends.lazy_import("no_such_package")


def test_keras_layers_in_sequence() -> None:
    from tests.frontend.keras.models import keras

    front = frontends.KerasFrontend()
    sequence = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    assert front.is_sequential_p(sequence)
    assert not front.is_sequential_p(front.sequential_to_functional(sequence))


@pytest.fixture
def model(tmp_path: Path) -> tvmc.TVMCModel:
    dense_model(tmp_path / "dense.onnx")
    return tvmc.load(str(tmp_path / "dense.onnx"))


X = np.linspace(-1, 1, 128, dtype="float32").reshape(4, 32)


def test_a_model_is_saved(model: tvmc.TVMCModel, tmp_path: Path) -> None:
    record = Record("a kernel", "dense", "llvm", {}, (1.0,), untuned=2.0)
    log.append(model.default_tuning_records_path(), [record.to_json()])
    model.save(tmp_path / "saved.tar")
    again = tvmc.TVMCModel(model_path=tmp_path / "saved.tar")
    want = tvmc.run(tvmc.compile(model, "llvm"), "cpu", inputs={"x": X}).get_output("output_0")
    found = tvmc.run(tvmc.compile(again, "llvm"), "cpu", inputs={"x": X}).get_output("output_0")
    np.testing.assert_array_equal(found, want)
    assert load(again.default_tuning_records_path()) == ([record], [])
    text = io.StringIO()
    model.summary(file=text)
    assert text.getvalue().startswith("def @main(%x: Tensor[(4, 32), float32]")
    with pytest.raises(tvmc.TVMCException, match="Either mod and params must be provided"):
        tvmc.TVMCModel()
    package = tvmc.compile(model, "llvm", package_path=tmp_path / "package.tar")
    with pytest.raises(tvmc.TVMCException, match=r"this file holds no model that TVMCModel\.save wrote"):
        tvmc.TVMCModel(model_path=package.package_path)


def test_a_package_is_read_again(model: tvmc.TVMCModel, tmp_path: Path) -> None:
    path = str(tmp_path / "package.tar")
    first = tvmc.compile(model, target="llvm", package_path=path)
    again = tvmc.TVMCPackage(package_path=path)
    for package in (first, again):
        assert (package.type, package.executor_type, package.lib_name) == ("classic", "graph", "mod.so")
        assert package.graph is not None and package.params and package.project_dir is None
    result = tvmc.run(again, device="cpu", inputs={"x": X}, benchmark=True, repeat=3, number=2)
    assert len(result.times.results) == 3 and result.times.median > 0  # type: ignore[union-attr]
    assert str(result).startswith("Execution time summary:\n")
    assert str(result).endswith("Output Names:\n ['output_0']")
    result.save(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as saved:
        np.testing.assert_array_equal(saved["output_0"], result.get_output("output_0"))
    with pytest.raises(tvmc.TVMCException, match="there is no output 'y'; there are output_0"):
        result.get_output("y")
    objects = model.export_package(
        relay.build(model.mod, "llvm", params=model.params, executor="graph"),
        tmp_path / "objects.tar",
        output_format="tar",
    )
    found = tvmc.run(tvmc.TVMCPackage(objects), "cpu", inputs={"x": X}).get_output("output_0")
    np.testing.assert_allclose(found, result.get_output("output_0"), rtol=1e-5, atol=1e-5)


def test_a_package_without_executor(tmp_path: Path) -> None:
    from tilewright.driver.tvmc.model import write_tar

    write_tar(tmp_path / "other.tar", {"a": b"b"})
    with pytest.raises(
        tvmc.TVMCException, match=r"this file is no package of tvmc: it holds neither of mod\.so, mod\.tar"
    ):
        tvmc.TVMCPackage(tmp_path / "other.tar")
    with pytest.raises(tvmc.TVMCException, match="the package must be a TVMCPackage"):
        tvmc.run("other.tar", "cpu")  # type: ignore[arg-type]


def test_changes_of_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_model(
        tmp_path / "conv.onnx",
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        {"x": [1, 8, 6, 6]},
        ["y"],
        {"w": rng.standard_normal((16, 8, 3, 3))},
    )
    model = tvmc.load(str(tmp_path / "conv.onnx"))
    x = rng.standard_normal((1, 8, 6, 6)).astype("float32")
    want = tvmc.run(tvmc.compile(model, "llvm"), "cpu", inputs={"x": x}).get_output("output_0")
    for options, tolerance in (
        ({"desired_layout": "NHWC"}, 1e-4),
        ({"desired_layout": ["NHWC:HWIO"], "desired_layout_ops": ["nn.conv2d"]}, 1e-4),
        ({"mixed_precision": True, "mixed_precision_acc_type": "float32"}, 2e-2),
        (
            {
                "mixed_precision": True,
                "mixed_precision_ops": ["nn.conv2d"],
                "mixed_precision_calculation_type": "bfloat16",
            },
            2e-1,
        ),
    ):
        package = tvmc.compile(model, "llvm", dump_code=["relay"], package_path=tmp_path / "p.tar", **options)  # type: ignore[arg-type]
        found = tvmc.run(package, "cpu", inputs={"x": x}).get_output("output_0")
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * 4)
        text = (tmp_path / "p.tar.relay").read_text()
        assert ('data_layout="NHWC"' in text) == ("desired_layout" in options)
        assert ("float16" in text) == ("mixed_precision" in options)
    for wrong, message in (
        ({"desired_layout": "NXYZ"}, "Error converting layout to NXYZ: "),
        (
            {"desired_layout": ["NCHW", "NHWC"], "desired_layout_ops": ["nn.conv2d"]},
            "one for each of nn.conv2d, but got NCHW, NHWC",
        ),
        (
            {"mixed_precision": True, "mixed_precision_ops": ["nn.conv9d"]},
            "Error converting mixed precision to float16: ",
        ),
    ):
        with pytest.raises(tvmc.TVMCException, match=message):
            tvmc.compile(model, "llvm", **wrong)  # type: ignore[arg-type]


def test_inputs_of_a_run(model: tvmc.TVMCModel, tmp_path: Path) -> None:
    package = tvmc.compile(model, target="llvm")
    np.savez(tmp_path / "x.npz", x=X)
    found = [tvmc.run(package, "cpu", inputs=i).get_output("output_0") for i in ({"x": X}, str(tmp_path / "x.npz"))]
    np.testing.assert_array_equal(*found)
    with pytest.raises(
        tvmc.TVMCException, match="the input tensor 'data' is not in the graph. Expected inputs: x float32 4x32"
    ):
        tvmc.run(package, "cpu", inputs={"data": X})
    assert package.graph is not None
    assert runner.get_input_info(package.graph, package.params) == ({"x": [4, 32]}, {"x": "float32"})
    assert runner.generate_tensor_data((2, 3), "int8", "random").max() < 128
    with pytest.raises(tvmc.TVMCException, match="unknown fill-mode: sevens; there are zeros, ones, random"):
        runner.generate_tensor_data((2,), "float32", "sevens")


def test_dynamic_dimensions(tmp_path: Path) -> None:
    relu_model(tmp_path / "any.onnx", ["n", 4])
    model = tvmc.load(str(tmp_path / "any.onnx"))
    with pytest.raises(tvmc.TVMCException, match="compile it for the virtual machine"):
        tvmc.compile(model, "llvm")
    package = tvmc.compile(model, "llvm", use_vm=True)
    assert (package.type, package.executor_type) == ("vm", "vm")
    x = np.float32([[-1, 2, -3, 4]])
    result = tvmc.run(package, "cpu", inputs={"x": x}, benchmark=True, repeat=2)
    np.testing.assert_array_equal(result.get_output("output_0"), np.maximum(x, 0))
    assert len(result.times.results) == 2  # type: ignore[union-attr]


def test_a_model_is_tuned(model: tvmc.TVMCModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tvmc.tune(model, "llvm", tasks_filter="list") == model.default_tuning_records_path()
    assert [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()] == ["0.", "1."]
    path = tvmc.tune(model, "llvm", trials=3, repeat=2, min_repeat_ms=1, tasks_filter="0", early_stopping=16)
    records, refused = load(path)
    assert len(records) == 3 and not refused and len({r.task for r in records}) == 1
    again = tvmc.tune(model, "llvm", str(tmp_path / "more"), prior_records=path, trials=2)
    assert len(load(again)[0]) == 5
    want = tvmc.run(tvmc.compile(model, "llvm"), "cpu", inputs={"x": X}).get_output("output_0")
    tuned = tvmc.run(tvmc.compile(model, "llvm", tuning_records=again), "cpu", inputs={"x": X})
    np.testing.assert_allclose(tuned.get_output("output_0"), want, rtol=1e-4, atol=1e-4)


def test_what_there_is_not(model: tvmc.TVMCModel) -> None:
    with pytest.raises(tvmc.TVMCException, match="Only 'so', 'tar' and 'mlf' output formats are supported, not 'zip'"):
        tvmc.compile(model, target="llvm", output_format="zip")
    with pytest.raises(TVMError, match="there is no code generator for target kind 'vulkan'"):
        tvmc.compile(model, target="vulkan")
    assert isinstance(model.mod, IRModule)
