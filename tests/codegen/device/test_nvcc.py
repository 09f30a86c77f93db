"""tvm.contrib.nvcc without a compiler or a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.codegen.source.cuda import nvrtc
from tilewright.contrib import nvcc
from tilewright.support.cuda_files import toolkits
from tilewright.support.errors import TVMError
from tilewright.target import Target


def test_what_a_gpu_can_do() -> None:
    assert [nvcc.have_fp16(v) for v in ("5.0", "5.3", "6.0", "9.0a")] == [False, True, True, True]
    assert [nvcc.have_int8(v) for v in ("6.0", "6.1")] == [False, True]
    assert [nvcc.have_tensorcore(v) for v in ("6.1", "7.0")] == [False, True]
    assert [nvcc.have_bf16(v) for v in ("7.5", "8.0")] == [False, True]
    assert [nvcc.have_fp8(v) for v in ("8.6", "8.9", "10.0")] == [False, True, True]
    assert nvcc.parse_compute_version("12.0") == (12, 0)
    with pytest.raises(RuntimeError, match='a compute capability is written like "8.0"'):
        nvcc.parse_compute_version("ada")


def test_versions_of_targets() -> None:
    assert nvcc.get_target_compute_version(Target("cuda -arch=sm_90a")) == "9.0a"
    assert nvcc.get_target_compute_version(Target("cuda -arch=sm_100")) == "10.0"
    with Target("cuda -arch=sm_86"):
        assert nvcc.get_target_compute_version() == "8.6" and nvcc.have_tensorcore()
    assert not nvcc.have_tensorcore(target=Target("cuda -arch=sm_61"))


def test_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert nvcc.find_cuda_path() == str(tmp_path)
    (tmp_path / "nvvm" / "libdevice").mkdir(parents=True)
    with pytest.raises(RuntimeError, match="there is no libdevice in"):
        nvcc.find_libdevice_path("sm_80")
    assert nvcc.callback_libdevice_path("sm_80") == ""
    (tmp_path / "nvvm" / "libdevice" / "libdevice.10.bc").touch()
    assert nvcc.find_libdevice_path("sm_80").endswith("libdevice.10.bc")
    assert nvcc.callback_libdevice_path("sm_80") == nvcc.find_libdevice_path("sm_80")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert next(toolkits()) == tmp_path


def test_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles for the target it is given, else for the current one."""
    monkeypatch.setattr(nvcc, "_nvcc", lambda: None)
    monkeypatch.setattr(nvcc, "_by_nvrtc", lambda code, form, arch, options: f"{code} {form} {arch}".encode())
    assert nvcc.tvm_callback_cuda_compile("f", Target("cuda -arch=sm_86")) == b"f ptx ['sm_86']"
    with Target("cuda -arch=sm_90"):
        assert nvcc.tvm_callback_cuda_compile("f") == b"f ptx ['sm_90']"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "_nvcc", lambda: None)
    monkeypatch.setattr(nvrtc, "nvrtc", lambda: None)
    with pytest.raises(TVMError, match=r"there is no compiler of CUDA C: .*tilewright\[cuda\]"):
        nvcc.compile_cuda("", "ptx", "sm_80")
    with pytest.raises(ValueError, match="target_format is one of ptx, cubin, fatbin"):
        nvcc.compile_cuda("", "elf")
