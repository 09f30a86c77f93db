"""C and C++ source to objects and libraries, by the compiler of the machine or the one in the package ziglang."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.runtime import _ffi
from tilewright.runtime.linking.module_source import ModuleSource
from tilewright.runtime.linking.zig import zig_cpu, zig_target
from tilewright.support import cache
from tilewright.support.errors import TVMError, said
from tilewright.support.files import temporary_folder
from tilewright.support.linker import Finish, link, zig

C_FORMATS = ("c",)
CXX_FORMATS = ("cc", "cpp", "cxx", "c++")
STANDARD = {"c": "-std=gnu11", "c++": "-std=c++17"}


def include_folder() -> str:
    """The folder of the headers for code that packed functions are made of: tilewright/packed.h, dlpack/dlpack.h, and those
    of classic TVM that generated code includes."""
    return os.fspath(Path(_ffi.__file__).parent / "include")


def compiler_command(language: str, triple: str | None = None) -> list[str]:
    """The command of a compiler of "c" or "c++": that of CC or CXX, the system's, or the one in the package ziglang, which is also
    the one for other machines (`triple`, as LLVM writes it). Raises TVMError when there is none."""
    cxx = language == "c++"
    if triple is None:
        given = os.environ.get("CXX" if cxx else "CC")
        if given:
            return shlex.split(given)
        for name in ("g++", "clang++", "c++") if cxx else ("cc", "gcc", "clang"):
            found = shutil.which(name)
            if found:
                return [found]
    command = zig("c++" if cxx else "cc")
    if command is not None:
        if triple is None:
            return command
        cpu = zig_cpu(triple)
        return [*command, "-target", zig_target(triple), *([f"-mcpu={cpu}"] if cpu else [])]
    what = f"for {triple} " if triple else ""
    raise TVMError(
        f"compiling {'C++' if cxx else 'C'} source {what}needs a compiler, and this machine has none: install one, or"
        " `pip install 'tilewright[cross]'`; CC and CXX may name one"
    )


def compile_source(
    code: str,
    language: str,
    options: Sequence[str] = (),
    triple: str | None = None,
    cc: str | None = None,
    native: bool = True,
    include: Path | None = None,
) -> bytes:
    """A relocatable object of C or C++ source, with the headers of a folder (None: our own). Raises TVMError with the compiler's
    words. What was compiled once is taken from the on-disk cache."""
    command = shlex.split(cc) if cc else compiler_command(language, triple)
    headers = Path(include_folder()) if include is None else include
    flags = ["-O3", "-fPIC", STANDARD[language], "-fno-math-errno", "-fno-stack-protector"]
    if triple is None and native:
        flags.append("-march=native")
    facts = compiler_facts(tuple(command)), headers_digest(headers), _machine()
    key = cache.key("source", code, language, *command, *flags, *options, *facts)
    flags.append(f"-I{headers}")
    found = cache.get(key)
    if found is not None:
        return found
    with temporary_folder("tilewright-cc-") as folder:
        source, output = folder / ("code.c" if language == "c" else "code.cc"), folder / "code.o"
        source.write_text(code)
        done = subprocess.run(
            [*command, *flags, *options, "-c", str(source), "-o", str(output)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode and os.strerror(errno.ENOSPC) in done.stderr:
            # What the compiler has to say of the source is not known.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(source))
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip()).replace(f"{folder}{os.sep}", "")
            kept = Path(tempfile.mkdtemp(prefix="tilewright-refused-")) / source.name
            kept.write_text(code)
            again = shlex.join([*command, *flags, *options, "-c", os.fspath(kept), "-o", os.devnull])
            raise TVMError(
                f"generated {'C' if language == 'c' else 'C++'} source does not compile: {command[0]} says\n{words}\n"
                f"the source is kept in {kept}; the command was\n{again}"
            )
        data = output.read_bytes()
    cache.put(key, data)
    return data


def compiler_facts(command: tuple[str, ...]) -> str:
    """What tells a compiler from others that had the same command: its files, and what it says of its version."""
    files = [found for part in command if (found := shutil.which(part)) is not None]
    if "ziglang" in command and (spec := importlib.util.find_spec("ziglang")) is not None and spec.origin:
        files.append(os.fspath(Path(spec.origin).parent / "zig"))
    facts = []
    for file in map(os.path.realpath, files):
        with contextlib.suppress(OSError):
            told = os.stat(file)
            facts.append(f"{file} {told.st_size} {told.st_mtime_ns}")
    return _version(command, "\n".join(facts))


@functools.cache
def _version(command: tuple[str, ...], files: str) -> str:
    """A compiler's files and its version; the cache knows the version that it told when these were its files."""
    key = cache.key("compiler", *command, files)
    found = cache.get(key)
    if found is None:
        program = shutil.which(command[0])
        asked = [os.path.abspath(program) if program else command[0], *command[1:], "--version"]
        # In a folder of its own: zig's compiler for macOS, asked for its version, leaves an empty object where it runs.
        with temporary_folder("tilewright-cc-") as folder:
            try:
                done = subprocess.run(asked, capture_output=True, check=False, cwd=folder)
            except OSError as error:
                raise TVMError(f"the compiler cannot be run: {said(error)}") from error
        found = done.stdout
        cache.put(key, found)
    return f"{files}\n{found.decode(errors='replace')}"


@functools.cache
def headers_digest(folder: Path) -> str:
    """A digest of the headers that compiled source may include."""
    texts = [p.read_bytes() for p in sorted(folder.rglob("*.h"))]
    return hashlib.blake2b(b"\0".join(texts), digest_size=16).hexdigest()


@functools.cache
def _machine() -> str:
    """What -march=native means here."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = [line for line in dict.fromkeys(lines) if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return " ".join([platform.machine(), platform.processor(), *facts])


def link_by_compiler(
    objects: Sequence[str],
    output: Path,
    language: str,
    triple: str | None = None,
    cc: str | None = None,
    options: Sequence[str] = (),
    finish: Finish | None = None,
) -> None:
    """Links objects into a shared library by the compiler of a language, which knows the libraries that the language needs."""
    command = shlex.split(cc) if cc else compiler_command(language, triple)
    link(command, ["-shared", "-s"], [*objects, "-lm", *options], output, finish)


class CSource(ModuleSource):
    """What a module of C source was made from. Its object is compiled when it is asked for; `triple` may be set before."""

    type_key = "c"

    def __init__(self, code: str, fmt: str, func_names: Sequence[str], const_vars: Sequence[str]) -> None:
        self.code, self.fmt = code, fmt
        self.func_names, self.const_vars = list(func_names), list(const_vars)
        self.language = "c" if fmt in C_FORMATS else "c++"
        self.options: list[str] = []
        self.cc: str | None = None
        self.native = True
        """Whether the code may use all that this machine's CPU has."""
        super().__init__((), {fmt: lambda: code}, None)

    @property
    def objects(self) -> list[bytes]:
        """The object, for the machine of `triple`."""
        return [self.compiled(self.triple)]

    @property
    def has_objects(self) -> bool:
        return True

    def compiled(self, triple: str | None = None) -> bytes:
        """The object, for a machine (None: this one)."""
        return compile_source(self.complete, self.language, self.options, triple, self.cc, self.native)

    @property
    def complete(self) -> str:
        """The code with what makes its functions of the older calling convention packed functions."""
        classic = [f for f in self.func_names if re.search(rf"\b{re.escape(f)}\s*\(\s*TVMValue\s*\*", self.code)]
        added = "".join([f"TW_CLASSIC_FUNC({f})\n" for f in classic])
        return f"{self.code}\n#include <tilewright/classic_func.h>\n{added}" if classic else self.code
