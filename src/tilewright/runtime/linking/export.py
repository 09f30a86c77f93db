"""Writing compiled modules to files, and linking objects that are loaded."""

from __future__ import annotations

import json
import lzma
import platform
import shlex
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.runtime.linking.archive_file import archive, members
from tilewright.runtime.linking.c_source import CSource, compile_source, link_by_compiler
from tilewright.runtime.linking.module_source import ModuleSource
from tilewright.runtime.linking.object_file import SEAL, data_object, seal_object
from tilewright.runtime.linking.renaming import FUNCTION, prefixed, with_prefix
from tilewright.runtime.linking.symbol_file import symbol_file
from tilewright.runtime.linking.symbols import CONSTANTS, TARGET
from tilewright.runtime.linking.wasm_format import seal_module
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import TVMError, said
from tilewright.support.files import filling, temporary_folder, write_whole
from tilewright.support.linker import STATIC, link_shared, write_library
from tilewright.support.object_kind import ELF, WASM, ObjectKind
from tilewright.support.processors import usable_processors

FLAGS, KERNEL_HEADER = "flags", "include/tilewright/kernel.h"
"""What an archive of source is compiled with."""
LIBRARY_BIN = "__tvm_ffi__library_bin"
"""Content of a library for modules without machine code."""


def library_bin(modules: Sequence[tuple[str, bytes]]) -> bytes:
    """Modules (kind, bytes) that a library imports, as loaders of tvm-ffi read them: the size, the tree of imports in compressed
    rows, and the modules, of which the first is the library itself."""
    count = len(modules)

    def text(data: bytes) -> bytes:
        return struct.pack("<Q", len(data)) + data

    def numbers(values: Sequence[int]) -> bytes:
        return struct.pack(f"<{1 + len(values)}Q", len(values), *values)

    rows = [0, *[count] * (count + 1)]
    body = numbers(rows) + numbers(range(1, count + 1)) + text(b"_lib")
    body += b"".join([text(kind.encode()) + text(data) for kind, data in modules])
    return text(body)


def export_library(
    path: str,
    sources: Sequence[ModuleSource],
    fcompile: Callable[..., Any] | None,
    addons: Sequence[str],
    workspace_dir: str | None,
    options: dict[str, Any],
    packed_imports: str = "",
    facts: bool = True,
) -> None:
    """Writes the objects of modules as one library: .so, .a, .tar or .o by the path's name; in a .tar the source of those that have it.

    options: for source that is compiled now, `options` (flags of the compiler) and `cc`; for `fcompile`, all. `fcompile` may have
    attributes: `object_format`, the form of the files that it takes; `need_system_lib`; `get_target_triple`, a function that tells the
    machine of its code; `add_files`, more files for it. packed_imports: a file that holds the imports, instead of our own.
    facts: with the facts of the target, which are checked where the library is loaded.
    """
    flags = _listed(options.get("options"))
    linking = [o for o in flags if o.startswith(("-l", "-L", "-Wl,"))]
    generated = [s for s in sources if isinstance(s, CSource)]
    if getattr(fcompile, "need_system_lib", False) and not sources[0].system_lib:
        raise ValueError(
            f"{path}: this fcompile needs a system library: build with Runtime('cpp', {{'system-lib': True}})"
        )
    for g in generated:
        g.options = [o for o in flags if o not in linking] or g.options
        g.cc = options.get("cc", g.cc)
        if (compiler := getattr(fcompile, "cc", None)) is not None:
            g.cc, g.native = compiler, False
        elif (told := getattr(fcompile, "get_target_triple", None)) is not None:
            g.triple = _elsewhere(told()) or g.triple
    archived = [s for s in sources if s.archive is not None] if path.endswith(".tar") and not fcompile else []
    if packed_imports:
        addons = [*addons, packed_imports]
    registers = path.endswith(STATIC) or any([s.system_lib for s in sources if s not in archived])
    objects = library_objects(sources, archived, registers, imports=not packed_imports, facts=facts)
    for source in archived:
        objects |= source.archive() if source.archive is not None else {}
    for extra in addons:
        objects[Path(extra).name] = Path(extra).read_bytes()
    if not objects:
        raise ValueError(f"nothing to write into {path}: the module holds no objects")
    if path.endswith(STATIC) and not fcompile:
        write_whole(path, archive(objects))
        return
    kind = _kind(objects)
    # Other containers have no place for one, and macOS signs its libraries to the last byte.
    seal: Callable[[str], object] | None = None
    if kind.container == ELF or path.endswith(".tar"):
        seal = global_func("runtime.SealFile")
    elif kind.container == WASM and path.endswith(".wasm"):
        seal = seal_module
    if not fcompile or path.endswith(".so"):
        objects = _with_place_for_seal(objects, path, kind)
    form = str(getattr(fcompile, "object_format", "o"))
    if form not in ("o", "obj", "tar"):
        objects = _in_form(objects, sources, form)
    by_compiler = bool(generated or options.get("cc")) and path.endswith(".so")
    if not fcompile and not by_compiler:
        write_library(objects, Path(path), seal)
        return
    with temporary_folder(place=workspace_dir) as folder:
        files = []
        for name, data in objects.items():
            file = folder / name
            file.write_bytes(data)
            files.append(str(file))
        if fcompile:
            files += [str(f) for f in getattr(fcompile, "add_files", None) or ()]
            fcompile(path, files, **options)
            if seal is not None and path.endswith(".so") and Path(path).is_file():
                seal(path)
            return
        last = next((s for s in generated if s.language == "c++"), generated[0] if generated else None)
        language, triple = (last.language, last.triple) if last is not None else ("c", None)
        link_by_compiler(files, Path(path), language, triple, options.get("cc"), linking if generated else flags, seal)


def _elsewhere(triple: str | None) -> str | None:
    """A triple, unless it is that of this machine."""
    own = triple is None or (triple.split("-")[0] == platform.machine() and platform.system().lower() in triple)
    return None if own else triple


def _listed(options: Any) -> list[str]:
    """Flags of a compiler, which may be given as one text."""
    return [options] if isinstance(options, str) else [str(o) for o in options or ()]


def library_objects(
    sources: Sequence[ModuleSource],
    archived: Sequence[ModuleSource] = (),
    registers: bool = False,
    imports: bool = True,
    prefix: str | None = None,
    facts: bool = True,
) -> dict[str, bytes]:
    """The objects of a library by name: those of modules, their constants and facts, and what they import. archived: modules whose objects
    are left out. registers: with an object that registers the library with the runtime. prefix: before all symbols, instead of that of the
    first module."""
    objects = _objects(sources, archived, imports, facts)
    linked = [s for s in sources if s not in archived]
    prefix = sources[0].prefix if prefix is None else prefix
    if prefix and linked:
        objects = with_prefix(objects, prefix)
    maker = next((s.registration for s in linked if s.registration is not None), None)
    if maker is not None and registers:
        own = {prefixed(name, prefix) for s in linked for name in s.looked_up}
        objects["registration.o"] = maker(_registered(objects, own, prefix))
    return objects


def _objects(
    sources: Sequence[ModuleSource], archived: Sequence[ModuleSource], imports: bool, facts: bool
) -> dict[str, bytes]:
    """The objects of modules by name, with those of their constants, facts and imports."""
    objects: dict[str, bytes] = {}
    linked = [s for s in sources if s not in archived]
    for i, source in enumerate(linked):
        for j, data in enumerate(source.objects):
            objects[f"lib{i}_{j}.o"] = data
    kind = _kind(objects)
    for i, source in enumerate(sources):
        constants = {} if source.constants is None or source in archived else {CONSTANTS: source.constants}
        for j, (symbol, array) in enumerate({**constants, **source.data}.items()):
            objects[f"data{i}_{j}.o"] = data_object(symbol, array.numpy().reshape(-1).view("uint8").data, kind)
    targets = [s.facts for s in linked if s.facts is not None]
    if targets and facts:
        every = {**targets[0], "features": sorted({f for one in targets for f in one["features"]})}
        objects["target.o"] = data_object(TARGET, json.dumps(every).encode() + b"\0", kind)
    held = [(s.binary_kind, s.binary()) for s in sources if s.binary is not None]
    if held and imports:
        objects["imports.o"] = data_object(LIBRARY_BIN, library_bin(held), kind)
    return objects


def _registered(objects: Mapping[str, bytes], own: AbstractSet[str], prefix: str) -> list[str]:
    """The symbols of objects that the runtime looks up, in their order."""
    found: dict[str, None] = {}
    for data in objects.values():
        for symbol in symbol_file(data).exported if ObjectKind.of(data) is not None else ():
            name = symbol.removeprefix(prefix)
            if symbol in own or name.startswith((FUNCTION, "__tilewright_")):
                found[symbol] = None
    return list(found)


def _in_form(objects: Mapping[str, bytes], sources: Sequence[ModuleSource], form: str) -> dict[str, bytes]:
    """The members of a library for an `fcompile` that takes a form of source: files of the modules' code in it, and the other objects.
    A module that the first one imports may be of objects alone. C source is an object, of the compiler that `fcompile` tells."""
    if sources[0].prefix:
        raise ValueError(
            f"this fcompile takes files of the format {form!r}, but the prefix {sources[0].prefix!r} of the module's symbols"
            " (system_lib_prefix) is given to objects only"
        )
    taken: dict[str, bytes] = {}
    replaced: set[str] = set()
    for i, source in enumerate(sources):
        count = 0 if isinstance(source, CSource) else len(source.objects) - len(source.beside)
        files = source.code_in(form) if count else []
        if files is None and source is sources[0]:
            raise ValueError(
                f"this fcompile takes files of the format {form!r}, which the module's code is not written in"
            )
        if files:
            replaced |= {f"lib{i}_{j}.o" for j in range(count)}
            taken |= {
                f"lib{i}_{j}.{form}": text.encode() if isinstance(text, str) else text for j, text in enumerate(files)
            }
    return taken | {name: data for name, data in objects.items() if name not in replaced}


def _with_place_for_seal(objects: dict[str, bytes], path: str, kind: ObjectKind) -> dict[str, bytes]:
    """The members of a library and what holds its seal, first of all."""
    suffix = Path(path).suffix
    if suffix == ".tar":
        return {"tilewright.seal": SEAL, **objects}
    if suffix in (".so", ".o") and kind.container == ELF:
        return {"seal.o": seal_object(kind, linked=suffix == ".so"), **objects}
    return objects


def _kind(objects: Mapping[str, bytes]) -> ObjectKind:
    """The kind of objects with which data must be linked; this machine's kind if there is no code."""
    kind = next((k for data in objects.values() if (k := ObjectKind.of(data)) is not None), ObjectKind.host())
    if kind is None:
        raise TVMError(
            f"nothing is known of the object files of this machine ({platform.machine()}, {platform.system()})"
        )
    return kind


@contextmanager
def linked_for_loading(path: str) -> Iterator[str]:
    """A shared library linked from an object, a static library, or an archive of objects and source. Its file is removed in the end: the
    system keeps what it has loaded."""
    with temporary_folder("tilewright-load-") as place:
        output = place / "lib.so"
        if path.endswith(".tar"):
            files = _unpacked(path, place)
        elif path.endswith(STATIC):
            files = _members_of(path, place)
        else:
            files = [Path(path)]
        need_own_kind(path, files)
        link_shared(files, output)
        yield str(output)


def _members_of(path: str, place: Path) -> list[Path]:
    """The objects of a static library in a folder."""
    try:
        parts = members(Path(path).read_bytes())
    except ValueError as error:
        raise TVMError(f"{path} is not a static library: {error}; copy or write it again") from error
    if not parts:
        raise TVMError(f"{path} holds no objects")
    files = [place / f"{k}.o" for k in range(len(parts))]
    for file, data in zip(files, parts.values(), strict=True):
        file.write_bytes(data)
    return files


def _unpacked(path: str, place: Path) -> list[Path]:
    """The objects of an archive in a folder; its source is compiled."""
    sources = []
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isfile() else None
                if data is None:
                    continue
                # By its last name only: an archive says nothing about places outside its folder.
                name = Path(member.name).name
                with filling(place):
                    if name.endswith(".o"):
                        (place / name).write_bytes(data.read())
                    elif name.endswith(".a"):
                        for k, part in enumerate(members(data.read()).values()):
                            (place / f"{name}_{k}.o").write_bytes(part)
                    elif name == FLAGS:
                        (place / FLAGS).write_bytes(data.read())
                    elif member.name.endswith(KERNEL_HEADER):
                        (place / KERNEL_HEADER).parent.mkdir(parents=True, exist_ok=True)
                        (place / KERNEL_HEADER).write_bytes(data.read())
                    elif name.endswith(".c"):
                        sources.append((place / f"{name}.o", data.read().decode()))
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise TVMError(f"{path} is not an archive of objects: {said(error)}") from error
    _compile_sources(place, sources)
    files = sorted(place.glob("*.o"))
    if not files:
        raise TVMError(f"{path} holds no objects (*.o) and no source (*.c)")
    return files


def need_own_kind(path: str, objects: Sequence[Path]) -> None:
    """Raises ValueError where objects of a file are for another machine."""
    own = ObjectKind.host()
    for item in objects:
        with open(item, "rb") as file:
            kind = ObjectKind.of(file.read(64))
        if kind is not None and own is not None and not kind.runs_on(own):
            raise ValueError(
                f"{path} was made for {kind.made_for}, but this machine is {own.made_for}; compile it again for this machine"
            )


def _compile_sources(place: Path, sources: Sequence[tuple[Path, str]]) -> None:
    """Compiles C, on all cores, with the flags and the header that came with it."""
    if not sources:
        return
    flags = place / FLAGS
    options = shlex.split(flags.read_text()) if flags.is_file() else []
    include = place / Path(KERNEL_HEADER).parts[0]

    def compiled(source: tuple[Path, str]) -> None:
        output, text = source
        data = compile_source(text, "c", options, native=False, include=include if include.is_dir() else None)
        with filling(place):
            output.write_bytes(data)

    with ThreadPoolExecutor(usable_processors()) as pool:
        list(pool.map(compiled, sources))
