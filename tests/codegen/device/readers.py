"""Checks of OpenCL C and Metal by the Clang in zig: OpenCL C by itself; Metal as C++ with stand-ins for its library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _checked(arguments: list[str], text: str) -> None:
    """AssertionError with Clang's messages if it refuses the text."""
    command = [sys.executable, "-m", "ziglang", "clang", "-cc1", "-fsyntax-only", "-Werror", *arguments, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"


def read_opencl(text: str) -> None:
    """Reads OpenCL C 1.2 with all extensions."""
    types = (HERE / "opencl_types.h").read_text()
    options = ["-x", "cl", "-cl-std=CL1.2", "-triple", "spir64-unknown-unknown", "-fdeclare-opencl-builtins"]
    extensions = "-cl-ext=+cl_khr_fp16,+cl_khr_fp64,+cl_khr_int64_base_atomics"
    _checked([*options, extensions], f"{types}\n{text}")


def read_metal(text: str) -> None:
    """Reads Metal."""
    text = re.sub(r"\[\[.*?\]\]", "", text)
    text = text.replace("#include <metal_simdgroup_matrix>", "")
    text = text.replace("#include <metal_stdlib>", (HERE / "metal_stand_ins.h").read_text())
    _checked(["-x", "c++", "-std=c++17", "-triple", "aarch64-unknown-none", "-Wno-user-defined-literals"], text)
