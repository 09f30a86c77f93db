"""Devices of CUDA by the driver of this folder; what is said where there is no driver, or one that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuda import DRIVER, HERE, build_fakes, run_beside


@pytest.fixture(scope="module", name="fakes")
def _fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fakes(tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize(
    "name", [*sorted(p.name for p in HERE.glob("on_*.py")), pytest.param("whole_models.py", marks=pytest.mark.slow)]
)
def test_devices(name: str, fakes: Path) -> None:
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = run_beside(fakes, *options, str(HERE / name))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


ASK = """
import numpy as np, tilewright as tvm
try:
    tvm.nd.empty((2,), device=tvm.cuda(0))
except Exception as error:
    print(tvm.cuda(0).exist, tvm.cuda(0).device_name, f"{type(error).__name__}: {error}")
x = tvm.nd.array(np.float32([1, 2]))
print(x.numpy(), tvm.cpu(0).exist)
"""


def asked(folder: Path, before: str = "") -> str:
    done = run_beside(folder, "-c", before + ASK)
    assert done.returncode == 0 and done.stdout.endswith("[1. 2.] True\n"), "the CPU goes on" + done.stderr
    return done.stdout


def test_no_driver(tmp_path: Path) -> None:
    (tmp_path / DRIVER).write_text("this is no library")
    (tmp_path / "libcuda.so").write_text("neither is this")
    said = asked(tmp_path)
    assert said.startswith(
        f"False None RuntimeError: there is no CUDA driver: {DRIVER} cannot be opened ({tmp_path}/{DRIVER}: "
    )
    assert (
        "Install the driver of the GPU, which contains this file, put its folder into LD_LIBRARY_PATH, or use" in said
    )


@pytest.mark.parametrize(
    ("program", "said"), [("tests.on_gpu", "there is no GPU to test on"), ("benchmarks", "there is no GPU to measure")]
)
def test_what_needs_a_gpu_says_so_and_fails(program: str, said: str, tmp_path: Path) -> None:
    (tmp_path / DRIVER).write_text("this is no library")
    done = run_beside(tmp_path, "-m", program, *(["gpu"] if program == "benchmarks" else []))
    assert done.returncode == 1 and done.stderr.startswith(said + ": ") and not done.stdout


def test_an_old_driver(tmp_path: Path) -> None:
    from tests.runtime import native

    native.link(tmp_path, "old", native.compile_object("define i32 @cuInit(i32 %flags) {\n  ret i32 0\n}"))
    (tmp_path / "old.so").rename(tmp_path / DRIVER)
    assert (
        f"RuntimeError: the CUDA driver {DRIVER} has no function `cuDriverGetVersion`: it is older than CUDA 11.0;"
        " install a newer driver\n" in asked(tmp_path)
    )


def test_a_driver_that_does_not_start(fakes: Path) -> None:
    said = asked(fakes, "from tests.cuda import Fake\nFake().refuse('cuInit', 803)\n")
    # Its answer was for the first time only: the second look finds the devices.
    assert said.startswith(
        "True Fake GPU 0 RuntimeError: the CUDA driver libcuda.so.1 does not start: CUDA_ERROR_SYSTEM_DRIVER_"
    )
    assert "(system has unsupported display driver / cuda driver combination)" in said


def test_no_gpu(fakes: Path) -> None:
    said = asked(fakes, "from tests.cuda import Fake\nFake().set(devices=0)\n")
    assert said.startswith("False None CallValueError: there is no device cuda(0): its driver finds no GPU\n")
