"""micro.testing: platforms, boards and targets; a model is tuned, compiled and evaluated on a process of this machine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import network
from tilewright import micro, relay
from tilewright.micro import testing
from tilewright.micro.errors import MicroError
from tilewright.micro.testing import utils


def test_boards_and_targets() -> None:
    assert testing.get_supported_platforms() == ["crt", "qemu", "zephyr", "arduino"]
    emulated, known = testing.get_supported_boards("qemu"), testing.get_supported_boards("zephyr")
    assert emulated["mps2_an500"] == {"model": "mps2_an500", "is_qemu": True, "fpu": True}
    assert "stm32f746_disco" in known and "stm32f746_disco" not in emulated
    assert testing.get_target("crt").attrs["model"] == "host"
    assert testing.get_target("qemu", "microbit").mcpu == "cortex-m0"
    with pytest.raises(MicroError, match="the platform qemu has no board 'pico'; it has hifive1"):
        testing.get_target("qemu", "pico")
    with pytest.raises(MicroError, match="there is no template 'esp'"):
        testing.get_supported_boards("esp")


def test_labels(tmp_path: Path) -> None:
    mod, weights = network()
    samples = np.random.default_rng(5).standard_normal((4, 1, 8, 8, 3)).astype("float32")
    run = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()
    expected = [int(run(x, **weights).numpy().argmax()) for x in samples]
    target = testing.get_target("crt")
    with testing.create_aot_session("crt", None, target, mod, weights, build_dir=tmp_path / "project") as session:
        model = micro.create_local_aot_executor(session)
        found = [*testing.predict_labels_aot(session, model, samples, runs_per_sample=3)]
        del model
    assert [label for label, _ in found] == expected and all([0 < seconds < 1 for _, seconds in found])
    with testing.create_aot_session(
        "crt", None, target, mod, {}, build_dir=tmp_path / "project", use_existing=True
    ) as session:
        assert micro.create_local_aot_executor(session).get_num_outputs() == 1
    assert utils.mlf_extract_workspace_size_bytes(tmp_path / "project" / "model.tar") >= 1024
    with (
        pytest.raises(MicroError, match="no code generator for CMSIS-NN"),
        testing.create_aot_session("crt", None, target, mod, weights, use_cmsis_nn=True),
    ):
        pass


def test_headers() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        utils.create_header_file("image", np.array([1, -2], "int8"), "include", tar)
        utils.create_header_file("scale", np.array([0.5], "float32"), "include", tar)
        with pytest.raises(ValueError, match="image: headers have arrays of int8, .*, not of float64"):
            utils.create_header_file("image", np.zeros(2), "include", tar)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        texts = {m.name: tar.extractfile(m).read().decode() for m in tar}  # type: ignore[union-attr]
    assert "image_len = 2;" in texts["include/image.h"] and "int8_t image[] = {1, -2};" in texts["include/image.h"]
    assert "float scale[] = {0x1.0000000000000p-1f};" in texts["include/scale.h"]


def test_logs(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"result": [[0.5], 0, 1, 2]}\n\n')
    testing.utils.check_tune_log(tmp_path / "log")
    (tmp_path / "log").write_text('{"result": [[0.5], 0, 1, 2]}\n{"result": [["it broke"], 4, 1, 2]}\n')
    with pytest.raises(MicroError, match=r"line 2: the measurement failed: \['it broke'\]"):
        testing.utils.check_tune_log(tmp_path / "log")
    assert utils.get_conv2d_relay_module()["main"].params[0].name_hint == "data"
