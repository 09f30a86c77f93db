"""NVRTC, the compiler of CUDA C in a library: found where a Python package or a toolkit has it, opened when it is first used."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tilewright.codegen.resources import Resources, read_log
from tilewright.support.errors import TVMError

INSTALL = 'pip install "tilewright[cuda]"'
_PATTERN = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc.so*"


def toolkits() -> Iterator[Path]:
    """Folders of toolkits: CUDA_HOME, CUDA_PATH, and where the system has one."""
    for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if folder:
            yield Path(folder)


def packages() -> list[Path]:
    """Folders of NVIDIA's Python packages, of the oldest version of CUDA first: more drivers load what it compiles."""
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    roots = [Path(p) for p in (spec.submodule_search_locations if spec is not None else None) or ()]
    return sorted([p for root in roots if root.is_dir() for p in root.iterdir() if p.is_dir()], key=_age)


def _age(folder: Path) -> tuple[int, str]:
    digits = folder.name.removeprefix("cu")
    return (int(digits) if digits.isdigit() else 12, folder.name)


@cache
def library_path() -> Path | None:
    """The file of NVRTC; None where there is none."""
    for folder in [*packages(), *toolkits()]:
        for part in ("lib", "lib64", "bin", "targets/x86_64-linux/lib"):
            found = sorted(
                [p for p in (folder / part).glob(_PATTERN) if "builtins" not in p.name and ".alt." not in p.name]
            )
            if found:
                return found[0]
    name = ctypes.util.find_library("nvrtc")
    return Path(name) if name else None


@cache
def include_folders() -> tuple[Path, ...]:
    """Folders of CUDA's headers, such as cuda_fp16.h and mma.h."""
    library = library_path()
    near = [library.parent.parent / "include"] if library is not None else []
    installed = [p / "include" for p in packages()]
    found = [p for p in [*near, *installed, *[t / "include" for t in toolkits()]] if p.is_dir()]
    headers = [p for p in dict.fromkeys(found) if (p / "cuda_fp16.h").exists() or (p / "crt").is_dir()]
    if library is not None and library.parent.parent in {p.parent for p in headers}:
        return (library.parent.parent / "include",)
    wheels = [p for p in headers if p in installed]
    return tuple(wheels or headers)


def identity() -> str:
    """What compiled code depends on; "" without NVRTC."""
    path = library_path()
    if path is None:
        return ""
    return f"{path} {path.stat().st_size if path.exists() else ''}"


class Nvrtc:
    """The opened library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise TVMError(f"NVRTC cannot be opened: {error}. Install it anew: {INSTALL}") from error
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def architectures(self) -> list[int]:
        """The numbers of the architectures that it compiles for."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(found)
        return list(found)

    def compile(self, source: str, arch: str, options: Sequence[str] = (), form: str = "ptx") -> bytes:
        """PTX for an architecture such as "compute_80", or machine code ("cubin") for one such as "sm_80". Raises TVMError with the
        compiler's messages."""
        with self._compiled(source, arch, options) as program:
            return self._output(program, "CUBIN" if form == "cubin" else "PTX")

    def resources(self, source: str, arch: str) -> dict[str, Resources]:
        """What each kernel of a source uses on an architecture such as "sm_80", by its name. Raises TVMError like `compile`."""
        with self._compiled(source, arch, ["--ptxas-options=-v"]) as program:
            return read_log(self._log(program))

    @contextmanager
    def _compiled(self, source: str, arch: str, options: Sequence[str]) -> Iterator[ctypes.c_void_p]:
        """A compiled program, as long as it is used."""
        program = ctypes.c_void_p()
        given = [
            f"--gpu-architecture={arch}",
            "--std=c++17",
            *[f"--include-path={p}" for p in include_folders()],
            *options,
        ]
        args = (ctypes.c_char_p * len(given))(*[o.encode() for o in given])
        made = self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
        self._check(made)
        try:
            code = self._library.nvrtcCompileProgram(program, len(given), args)
            if code:
                raise TVMError(self._refused(program, code, source, given))
            yield program
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _log(self, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetProgramLog(program, log)
        return log.value.decode(errors="replace").strip()

    def _output(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        data = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, data))
        return data.raw.rstrip(b"\0") if what == "PTX" else data.raw

    def _check(self, code: int) -> None:
        if code:
            raise TVMError(f"NVRTC {self._number()}: {self._library.nvrtcGetErrorString(code).decode()}")

    def _number(self) -> str:
        return ".".join(map(str, self.version))

    def _refused(self, program: ctypes.c_void_p, code: int, source: str, options: Sequence[str]) -> str:
        said = self._log(program) or self._library.nvrtcGetErrorString(code).decode()
        if "cannot open source file" in said:
            said += f"\nCUDA's headers are missing: {INSTALL}"
        if "gpu-architecture" in said:
            said += f"\nit compiles for {', '.join(map(str, self.architectures()))}"
        lines = "\n".join([f"{k:4} {line}" for k, line in enumerate(source.splitlines(), 1)])
        return f"NVRTC {self._number()} ({self.path}) refused the source\n{said}\noptions: {' '.join(options)}\n{lines}"


@cache
def nvrtc() -> Nvrtc | None:
    """The library; None where it is not installed."""
    path = library_path()
    return None if path is None else Nvrtc(path)


__all__ = ["INSTALL", "Nvrtc", "identity", "include_folders", "library_path", "nvrtc", "packages", "toolkits"]
