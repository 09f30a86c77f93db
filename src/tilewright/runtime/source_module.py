"""Modules of C or C++ source: compiled when something of them is called, and into the library when they are exported."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.runtime import _ffi
from tilewright.runtime.module import Module, ModuleSource, load_module
from tilewright.support import cache
from tilewright.support.errors import TVMError, said
from tilewright.support.files import filling, kept_folder, temporary_folder
from tilewright.support.linker import Finish, link

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
    if importlib.util.find_spec("ziglang") is not None:
        command = [sys.executable, "-m", "ziglang", "c++" if cxx else "cc"]
        return command if triple is None else [*command, "-target", zig_target(triple)]
    what = f"for {triple} " if triple else ""
    raise TVMError(
        f"compiling {'C++' if cxx else 'C'} source {what}needs a compiler, and this machine has none: install one, or"
        " `pip install tilewright[cross]`; CC and CXX may name one"
    )


def zig_target(triple: str) -> str:
    """An LLVM triple as zig writes it: x86_64-unknown-linux-gnu is x86_64-linux-gnu."""
    parts = [p for p in triple.split("-") if p not in ("unknown", "pc", "none")]
    return "-".join(parts)


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
            check=False,
        )
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
        try:
            done = subprocess.run([*command, "--version"], capture_output=True, check=False)
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
        return f"{self.code}\n#include <tvm/runtime/c_runtime_api.h>\n{added}" if classic else self.code


class _Loaded:
    """Finds the functions of a module of C source; the code is compiled and loaded when the first is asked for."""

    def __init__(self, source: CSource) -> None:
        self.source = source
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.module: Module | None = None
        self.told: dict[str, Callable[..., Any]] = {
            "get_symbol": lambda: self.source.func_names[0] if self.source.func_names else "",
            "get_func_names": lambda: self.source.func_names,
            "get_const_vars": lambda: self.source.const_vars,
        }

    def __call__(self, name: str) -> Any:
        if name in self.told:
            return self.told[name] if name != "get_const_vars" or self.source.const_vars else None
        if not re.search(rf"\b{re.escape(name)}\b", self.source.code):
            return None
        found = self.library()
        return found.get_function(name) if found.implements_function(name) else None

    def library(self) -> Module:
        """The code, loaded into this process."""
        if self.module is None:
            self.folder = kept_folder("tilewright-load-")
            made, library = Path(self.folder.name) / "code.o", Path(self.folder.name) / "lib.so"
            with filling(made.parent):
                made.write_bytes(self.source.compiled())
            link_by_compiler([str(made)], library, self.source.language, None, self.source.cc)
            self.module = load_module(library)
        return self.module


def c_source_module(
    code: str, fmt: str = "c", func_names: Sequence[str] | None = None, const_vars: Sequence[str] | None = None
) -> Module:
    """A module of C (fmt "c") or C++ ("cc", "cpp") source that defines packed functions.

    func_names: the functions in it. const_vars: names of constants that it receives before its first call, as one list of
    tensors given to the function `__init_<first function>`. Packed functions are made by the macros of tilewright/packed.h in
    C, by TVM_DLL_EXPORT_TYPED_FUNC of tvm/runtime/packed_func.h in C++. The code is compiled by the system's compiler, or the
    one in the package ziglang, when one of its functions is called, and into the library when that is exported.
    """
    if not isinstance(code, str):
        raise TypeError(f"a module of C source is made of its text, but was given {type(code).__name__}")
    if fmt not in (*C_FORMATS, *CXX_FORMATS):
        raise ValueError(
            f"source of the format {fmt!r} cannot be compiled; the formats are {', '.join((*C_FORMATS, *CXX_FORMATS))}"
        )
    source = CSource(code, fmt, func_names or (), const_vars or ())
    return Module.from_functions(_Loaded(source), "c", source)
