"""The runtime for microcontrollers (native/c99), compiled for a board: the objects that sessions link and that firmware is made of."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from functools import cache as kept
from pathlib import Path

from tilewright.codegen.source.c.toolchain import machine_options
from tilewright.micro.board import Board
from tilewright.micro.errors import MicroError
from tilewright.micro.linking.elf import ARM, RISCV, ElfObject
from tilewright.runtime.libinfo import find_source_path
from tilewright.runtime.linking.c_source import compiler_command, compiler_facts
from tilewright.support import cache, linker
from tilewright.support.files import temporary_folder

WARNINGS = (
    "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes",
    "-Wundef", "-Wvla", "-Wswitch-default", "-Wimplicit-fallthrough", "-Wcast-qual", "-Wwrite-strings", "-Wpointer-arith",
)  # fmt: skip
SIZE = ("-Os", "-ffreestanding", "-ffunction-sections", "-fdata-sections", "-g0")
"""Flags of gcc and clang for the runtime's sources."""
CORE = ("src/runtime.c", "src/memory.c")
"""What every program needs."""
SESSION = (*CORE, "src/session.c", "src/platform.c")
FIRMWARE = (*CORE, "src/platform.c", "src/silent.c", "start/firmware.c")


def source_folder() -> Path:
    """The folder of the runtime's sources."""
    return Path(find_source_path()) / "c99"


def definitions(board: Board) -> list[str]:
    """The macros that tell the start code what the processor has."""
    found = [f"-DTW_CLOCK_HZ={board.clock_hz}u"]
    if board.fpu != "none":
        found.append("-DTW_FPU")
    if board.target().cpu.rvv:
        found.append("-DTW_VECTORS")
    if board.architecture == "cortex_m":
        if board.has_vtor:
            found.append("-DTW_VTOR")
        if not board.triple.startswith("thumbv6m"):
            found.append("-DTW_FAULTS")
    return found


def start_file(board: Board) -> str:
    """The start code of a board's processor."""
    return f"start/{board.architecture}.c"


def _command(board: Board) -> list[str]:
    """zig as the C compiler for a board. Raises TVMError where it is missing."""
    target = board.target()
    relaxed = ["-mno-relax"] if board.architecture == "riscv" else []
    return [
        *compiler_command("c", target.triple),
        *machine_options(target, True),
        *relaxed,
        "-fno-sanitize=all",
        "-fno-pic",
    ]


def compile_files(
    board: Board, files: list[tuple[str, bytes]], options: tuple[str, ...], headers: Mapping[str, str] | None = None
) -> list[ElfObject]:
    """Objects of C sources (name, text) for a board, with the headers of the runtime, and others by their paths. Raises MicroError with
    the compiler's words. What was compiled once is taken from the on-disk cache."""
    root, command = source_folder(), _command(board)
    given = dict(headers or {})
    texts = [
        *[p.read_bytes() for p in sorted(root.rglob("*.h"))],
        *[f"{n}\0{t}".encode() for n, t in sorted(given.items())],
    ]
    digest = hashlib.blake2b(b"\0".join(texts), digest_size=16).hexdigest()
    facts = [
        *command,
        *options,
        *definitions(board),
        digest,
        compiler_facts(tuple(compiler_command("c", board.triple))),
    ]
    found = []
    for name, text in files:
        key = cache.key("micro", name, text.decode(), *facts)
        data = cache.get(key)
        if data is None:
            data = _compiled(name, text, [*command, *options, *definitions(board)], root, given)
            cache.put(key, data)
        found.append(ElfObject(Path(name).name, data))
    return found


def _compiled(name: str, text: bytes, command: list[str], root: Path, headers: Mapping[str, str]) -> bytes:
    with temporary_folder("tilewright-micro-") as folder:
        source, output = folder / Path(name).name, folder / "code.o"
        source.write_bytes(text)
        for path, content in headers.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        include = [f"-I{root / 'include'}", f"-I{folder}", "-isystem", str(root / "freestanding")]
        done = subprocess.run(
            [*command, *include, "-c", str(source), "-o", str(output)], capture_output=True, text=True, errors="replace", check=False
        )  # fmt: skip
        if done.returncode or not output.is_file():
            raise MicroError(f"{name} does not compile: {' '.join(command[:4])} says\n{done.stderr.strip()[-4000:]}")
        return output.read_bytes()


def runtime_objects(board: Board, files: tuple[str, ...]) -> list[ElfObject]:
    """Objects of the runtime's sources for a board, and of its start code."""
    root = source_folder()
    return compile_files(board, [(f, (root / f).read_bytes()) for f in (*files, start_file(board))], (*WARNINGS, *SIZE))


def objects_for(board: Board, found: Mapping[str, bytes]) -> list[ElfObject]:
    """The objects among compiled code, by name, for a board. Raises MicroError for code of other processors."""
    objects = []
    for name, data in found.items():
        if data[:4] != b"\x7fELF":
            continue
        if data[4] != 1:
            raise MicroError(f"{name} is code of 64 bits, but {board.name} has 32; compile for {board.target('llvm')}")
        objects.append(ElfObject(name.rpartition("/")[2], data))
    machine = RISCV if board.architecture == "riscv" else ARM
    other = next((o for o in objects if o.machine != machine), None)
    if other is not None:
        raise MicroError(
            f"{other.name} is code of another processor than {board.name}'s; compile for {board.target('llvm')}"
        )
    return objects


def helpers(board: Board) -> list[ElfObject]:
    """Functions that compilers call by themselves where the processor has no instruction: division, floats. They are zig's own,
    compiled for the processor once (seconds)."""
    return [_helper_object(board.triple, _cpu(board))]


def _cpu(board: Board) -> str:
    found: str = next(o for o in machine_options(board.target(), True) if o.startswith("-mcpu="))
    return found


@kept
def _helper_object(triple: str, cpu: str) -> ElfObject:
    return ElfObject("compiler helpers", _helpers(triple, cpu))


def _helpers(triple: str, cpu: str) -> bytes:
    compiler, zig = compiler_command("c", triple), linker.zig()
    if zig is None:
        raise MicroError("code for boards is linked with helpers of zig: `pip install 'tilewright[cross]'`")
    key = cache.key("micro helpers", triple, cpu, compiler_facts(tuple(compiler)))
    found = cache.get(key)
    if found is not None:
        return found
    import importlib.util

    spec = importlib.util.find_spec("ziglang")
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).parent / "lib" / "compiler_rt.zig"
    with temporary_folder("tilewright-micro-") as folder:
        output = folder / "helpers.o"
        target = compiler[compiler.index("-target") + 1]
        done = subprocess.run(
            [*zig, "build-obj", str(source), "-target", target, cpu, "-O", "ReleaseSmall", "-ffunction-sections", "-fdata-sections",
             "-fno-unwind-tables", "-fstrip", f"-femit-bin={output}"],
            capture_output=True, text=True, errors="replace", check=False, cwd=folder,
        )  # fmt: skip
        if done.returncode or not output.is_file():
            raise MicroError(f"zig does not compile its helpers for {triple}: it says\n{done.stderr.strip()[-2000:]}")
        found = output.read_bytes()
    cache.put(key, found)
    return found


__all__ = [
    "CORE",
    "FIRMWARE",
    "SESSION",
    "SIZE",
    "WARNINGS",
    "compile_files",
    "definitions",
    "helpers",
    "runtime_objects",
    "source_folder",
    "start_file",
]
