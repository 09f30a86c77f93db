"""The text of kernels in every language (goldens), and that compilers and a reader of C accept it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.codegen.device.kernels import KERNELS, ONLY_CUDA, source
from tests.codegen.device.readers import read_metal, read_opencl
from tilewright.codegen.source.cuda import nvrtc

LANGUAGES = {"cuda": ("cuda -arch=sm_80", "cu"), "opencl": ("opencl", "cl"), "metal": ("metal", "metal")}
CASES = [(name, language) for name in KERNELS for language in LANGUAGES if language == "cuda" or name not in ONLY_CUDA]


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NVRTC, wherever the tests run: the texts are what is tested."""
    monkeypatch.setattr(nvrtc, "nvrtc", lambda: None)


@pytest.mark.parametrize(("name", "language"), CASES)
def test_source(name: str, language: str, golden: Callable[[str, str], None]) -> None:
    target, suffix = LANGUAGES[language]
    text = source(name, target)
    golden(f"{name}.{suffix}", text)
    if language == "opencl":
        read_opencl(text)
    elif language == "metal":
        read_metal(text)
