"""NVRTC, the compiler of CUDA C in a library, opened when it is first used."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tilewright.codegen.resources import Resources, read_log
from tilewright.support.cuda_files import include_folders, nvrtc_path
from tilewright.support.errors import TVMError

INSTALL = 'pip install "tilewright[cuda]"'


def identity() -> str:
    """What compiled code depends on; "" without NVRTC."""
    path = nvrtc_path()
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
            wanted = next((o.partition("=")[2] for o in options if o.startswith("--gpu-architecture=")), "")
            has = ", ".join(map(str, self.architectures()))
            return f"NVRTC {self._number()} ({self.path}) does not compile for {wanted}: it compiles for {has}"
        lines = "\n".join([f"{k:4} {line}" for k, line in enumerate(source.splitlines(), 1)])
        return f"NVRTC {self._number()} ({self.path}) refused the source\n{said}\noptions: {' '.join(options)}\n{lines}"


@cache
def nvrtc() -> Nvrtc | None:
    """The library; None where it is not installed."""
    path = nvrtc_path()
    return None if path is None else Nvrtc(path)


__all__ = ["INSTALL", "Nvrtc", "identity", "nvrtc"]
