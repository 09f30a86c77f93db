"""CUDA's compiler under the classic names: what a GPU can do, and compilation of CUDA C by nvcc or by NVRTC."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.codegen.source.cuda import nvrtc as _nvrtc
from tilewright.runtime import cuda
from tilewright.support.cuda_files import toolkits
from tilewright.support.errors import TVMError
from tilewright.target import Target

FORMATS = ("ptx", "cubin", "fatbin")


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: str | Sequence[str] | None = None,
    options: str | Sequence[str] | None = None,
    path_target: str | None = None,
) -> bytearray:
    """Compiles CUDA C to "ptx", "cubin" or "fatbin".

    arch: such as "sm_80", by default the current target's or that of the GPU of this machine. options: for the compiler. path_target: a
    file that is written as well. nvcc compiles where the machine has it, else NVRTC, which makes no fatbin. Raises TVMError with the
    compiler's messages, or if there is no compiler.
    """
    if target_format not in FORMATS:
        raise ValueError(f"target_format is one of {', '.join(FORMATS)}, but {target_format!r} was given")
    given = [options] if isinstance(options, str) else list(options or ())
    chosen = _arch(arch)
    nvcc = _nvcc()
    made = _by_nvcc(nvcc, code, target_format, chosen, given) if nvcc else _by_nvrtc(code, target_format, chosen, given)
    if path_target:
        Path(path_target).write_bytes(made)
    return bytearray(made)


def _arch(arch: str | Sequence[str] | None) -> list[str]:
    if isinstance(arch, str):
        return [arch]
    if arch:
        return list(arch)
    target = Target.current(allow_none=True)
    if target is not None and target.attrs.get("arch"):
        return [str(target.attrs["arch"])]
    major, minor = parse_compute_version(get_target_compute_version(target))
    return [f"sm_{major}{minor}"]


def _nvcc() -> str | None:
    found = shutil.which("nvcc")
    if found:
        return found
    own = [t / "bin" / "nvcc" for t in toolkits()]
    return next((str(p) for p in own if p.exists()), None)


def _by_nvcc(nvcc: str, code: str, form: str, arch: list[str], options: list[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, out = Path(folder) / "code.cu", Path(folder) / f"code.{form}"
        source.write_text(code)
        if len(arch) == 1 and not arch[0].startswith("-gencode"):
            machines = [f"-arch={arch[0]}"]
        else:
            machines = [
                a if a.startswith("-") else f"-gencode=arch={a.replace('sm_', 'compute_')},code={a}" for a in arch
            ]
        command = [nvcc, f"--{form}", "-O3", *machines, *options, "-o", str(out), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TVMError(f"nvcc refused the source\n{done.stdout}{done.stderr}command: {' '.join(command)}\n{code}")
        return out.read_bytes()


def _by_nvrtc(code: str, form: str, arch: list[str], options: list[str]) -> bytes:
    compiler = _nvrtc.nvrtc()
    if compiler is None:
        raise TVMError(f"there is no compiler of CUDA C: install a CUDA toolkit, or {_nvrtc.INSTALL}")
    if form == "fatbin":
        raise TVMError('NVRTC makes no fatbin; ask for "ptx" or "cubin", or install a CUDA toolkit')
    machine = arch[0] if form == "cubin" else arch[0].replace("sm_", "compute_")
    return compiler.compile(code, machine, options, form)


def find_cuda_path() -> str:
    """The folder of the CUDA toolkit: CUDA_PATH, CUDA_HOME, the one of nvcc, or /usr/local/cuda. Raises RuntimeError without one."""
    told = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME")
    if told:
        return told
    found = shutil.which("nvcc")
    if found and Path(found).resolve().parent.name == "bin":
        return str(Path(found).resolve().parent.parent)
    if Path("/usr/local/cuda/bin/nvcc").exists():
        return "/usr/local/cuda"
    raise RuntimeError("there is no CUDA toolkit: set CUDA_PATH, or install one so that nvcc is found")


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """The version of the toolkit, such as (12, 9). Raises RuntimeError where it cannot be told."""
    folder = Path(cuda_path or find_cuda_path())
    done = subprocess.run([str(folder / "bin" / "nvcc"), "--version"], capture_output=True, text=True, check=False)
    for word in done.stdout.replace(",", " ").split():
        if word.startswith("V") and word[1:2].isdigit():
            return tuple([int(x) for x in word[1:].split(".")[:2]])
    raise RuntimeError(f"the version of the toolkit in {folder} cannot be told: {done.stdout}{done.stderr}")


def find_libdevice_path(arch: Any) -> str:
    """The file of libdevice, LLVM bitcode of CUDA's mathematics. Raises RuntimeError without one."""
    folder = Path(find_cuda_path()) / "nvvm" / "libdevice"
    found = sorted(folder.glob("libdevice*.bc")) if folder.is_dir() else []
    if not found:
        raise RuntimeError(f"there is no libdevice in {folder}")
    return str(found[-1])


def get_target_compute_version(target: Target | None = None) -> str:
    """The compute capability of a target, such as "8.0": of its arch, of the current target, or of the GPU of this machine. Raises
    ValueError where none is known."""
    target = target or Target.current(allow_none=True)
    if target is not None and target.attrs.get("arch"):
        arch = str(target.attrs["arch"]).partition("_")[2]
        suffix = "".join([c for c in arch if c.isalpha()])
        number = arch.removesuffix(suffix)
        return f"{number[:-1]}.{number[-1]}{suffix}"
    device = cuda(0)
    if device.exist:
        return str(device.compute_version)
    raise ValueError('no compute capability is known: give the target an arch, as in Target("cuda -arch=sm_80")')


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(major, minor) of "8.0"."""
    major, _, minor = compute_version.partition(".")
    try:
        return int(major), int("".join([c for c in minor if c.isdigit()]))
    except ValueError as error:
        raise RuntimeError(f'a compute capability is written like "8.0", but {compute_version!r} was given') from error


def _at_least(compute_version: str, major: int, minor: int = 0) -> bool:
    return parse_compute_version(compute_version) >= (major, minor)


def have_fp16(compute_version: str) -> bool:
    """Whether arithmetic on float16 is provided: 5.3 and from 6.0 on."""
    return parse_compute_version(compute_version) == (5, 3) or _at_least(compute_version, 6)


def have_int8(compute_version: str) -> bool:
    """Whether dot products of bytes are provided: from 6.1 on."""
    return _at_least(compute_version, 6, 1)


def have_tensorcore(compute_version: str | None = None, target: Target | None = None) -> bool:
    """Whether there are matrix units: from 7.0 on. Without arguments: of the current target, or the GPU of this machine."""
    if compute_version is None:
        try:
            compute_version = get_target_compute_version(target)
        except ValueError:
            return False
    return _at_least(compute_version, 7)


def have_cudagraph() -> bool:
    """Whether the toolkit has CUDA graphs: from 10.0 on."""
    try:
        return get_cuda_version() >= (10, 0)
    except RuntimeError:
        return False


def have_bf16(compute_version: str) -> bool:
    """Whether arithmetic on bfloat16 is provided: from 8.0 on."""
    return _at_least(compute_version, 8)


def have_fp8(compute_version: str) -> bool:
    """Whether matrix units take float8: from 8.9 on."""
    return _at_least(compute_version, 8, 9)


def tvm_callback_cuda_compile(code: str, target: Target | None = None) -> bytearray:
    """Compiles CUDA C for a target (by default the current one, or the GPU of this machine), to PTX. Registered under this name with
    `register_func`, it takes the place of the compiler's own call of NVRTC."""
    if target is None:
        return compile_cuda(code)
    return compile_cuda(code, "ptx", str(target.attrs["arch"]) if target.attrs.get("arch") else None)


def callback_libdevice_path(arch: Any) -> str:
    """The file of libdevice; "" without one."""
    try:
        return find_libdevice_path(arch)
    except RuntimeError:
        return ""


__all__ = [
    "callback_libdevice_path",
    "compile_cuda",
    "find_cuda_path",
    "find_libdevice_path",
    "get_cuda_version",
    "get_target_compute_version",
    "have_bf16",
    "have_cudagraph",
    "have_fp16",
    "have_fp8",
    "have_int8",
    "have_tensorcore",
    "parse_compute_version",
    "tvm_callback_cuda_compile",
]
