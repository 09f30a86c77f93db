"""The native runtime, and programs that contain it, compiled for a machine by zig."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tilewright.deploy import zig
from tilewright.deploy.javascript import package_files
from tilewright.deploy.machines import MACHINES, Machine, System
from tilewright.runtime.libinfo import find_source_path
from tilewright.runtime.linking.c_source import include_folder
from tilewright.support import cache
from tilewright.support.errors import TVMError
from tilewright.support.files import temporary_folder, write_together
from tilewright.support.processors import usable_processors

Report = Callable[[int, int, str], None]
"""Called with the steps that are done, all steps, and what is done."""

COMMON = (
    "-std=c++17", "-g0", "-DNDEBUG", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffunction-sections",
    "-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fno-rtti",
    # std::function with a table of what its types share, instead of a class for each: 3 % less code. No function crosses into libc++.
    "-D_LIBCPP_ABI_OPTIMIZED_FUNCTION",
)  # fmt: skip
COLD = "-Os"
COLD_LIST = "cold_sources.txt"
"""Names of the sources whose code is to be small rather than fast."""


EXPORT_LIST = "exports.txt"
"""Names that a library exports, in folders of systems whose linker does not tell them by their visibility."""


class Sources(NamedTuple):
    """The folder that contains src/, and that of the headers."""

    root: Path
    include: Path


class Built(NamedTuple):
    """Files that were built; None where a system has none, or it was not asked for."""

    library: Path
    archive: Path | None
    server: Path | None
    opencl: Path | None = None
    cuda: Path | None = None


def native_sources() -> Sources:
    """The native sources: those of the repository that this package is imported from, else those that the package contains."""
    root = Path(find_source_path())
    return Sources(root, root / "include" if (root / "include").is_dir() else Path(include_folder()))


def runtime_sources(machine: Machine, sources: Sources | None = None) -> list[Path]:
    """The sources of the runtime for a machine."""
    root = (sources or native_sources()).root / "src"
    chosen = []
    for path in sorted(root.rglob("*.cc")):
        name = path.relative_to(root).as_posix()
        folder, *inner = name.split("/")
        if folder == "platform" and inner[0] not in machine.system.platform:
            continue
        if not any(fnmatch.fnmatch(name, pattern) for pattern in machine.system.without):
            chosen.append(path)
    return chosen


SERVER = "tilewright_rpc"
POPEN_SERVER = "posix_popen_server.cc"
"""The source of the other program in the folder of the server, for `rpc.with_minrpc`."""


def server_sources(machine: Machine, sources: Sources | None = None) -> list[Path]:
    """The sources of the server for a machine, without those of the runtime."""
    root = (sources or native_sources()).root / "server"
    parts = [path for folder in machine.system.platform for path in sorted((root / folder).glob("*.cc"))]
    if not parts:
        raise TVMError(
            f"there is no server for {machine.name}: {machine.system.name} has no processes and sockets for it"
        )
    return [path for path in sorted(root.glob("*.cc")) if path.name != POPEN_SERVER] + parts


DEVICES = "devices"
"""The folder of libraries of devices."""


def device_sources(machine: Machine, device: str, sources: Sources | None = None) -> list[Path]:
    """The sources of the library for a type of devices. TVMError where the system of the machine has no drivers for it."""
    if device not in machine.system.devices:
        known = ", ".join(machine.system.devices) or "none"
        raise TVMError(
            f"{machine.system.name} has no drivers for devices of type {device!r}; it has those for: {known}"
        )
    root = (sources or native_sources()).root / DEVICES
    return [p for folder in ("common", *machine.system.platform, device) for p in sorted((root / folder).glob("*.cc"))]


def build_runtime(
    machine: Machine,
    output: Path,
    rpc: bool = False,
    report: Report | None = None,
    sources: Sources | None = None,
    devices: Sequence[str] = (),
) -> Built:
    """Builds the runtime into the folder `output`: a shared library, stripped, and a static archive, or the files of a package.

    rpc: also the server for clients of `tilewright.rpc`, a program that contains the runtime. devices: also the libraries of these types
    of devices ("opencl", "cuda", "vta"), which the runtime and the server open where they lie beside them.

    Raises TVMError where zig is missing or fails, where files cannot be written, and for devices that the machine's system has no
    drivers for.
    """
    sources = sources or native_sources()
    for device in devices:
        device_sources(machine, device, sources)
    with _written_folder(output):
        files, built = _files(machine, output, rpc, sources, report)
        if machine.also:
            files |= _files(MACHINES[machine.also], output, False, sources, report)[0]
        for device in devices:
            library = output / machine.system.library.replace("runtime", device)
            files[library] = _device_library(machine, device, sources, library.name, report)
            built = built._replace(**{device: library})
        write_together(files, [] if built.server is None else [built.server])
    return built


@contextmanager
def _written_folder(output: Path) -> Iterator[None]:
    """A folder, made before minutes are spent on what is written to it; it goes again where that fails. Raises TVMError where it cannot
    be made or written."""
    made = [p for p in (output, *output.parents) if not p.exists()]
    try:
        try:
            output.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=output):
                pass
        except OSError as error:
            raise TVMError(
                f"the folder {output} cannot be written: {error.strerror or error}; choose another"
            ) from error
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _files(
    machine: Machine, output: Path, rpc: bool, sources: Sources, report: Report | None
) -> tuple[dict[Path, bytes], Built]:
    """What is written to `output` for a machine, and which of it is which."""
    system = machine.system
    extra = server_sources(machine, sources) if rpc else []
    found = compiled(machine, [*runtime_sources(machine, sources), *extra], sources, report)
    objects = {name: data for name, data in found.items() if not name.startswith("server_")}
    library = output / system.library
    options = (*system.shared, *_exports(system, sources), "-s")
    files = {library: _linked(machine, objects, options, system.library)}
    archive = server = None
    if system.archive:
        archive = output / system.archive
        files[archive] = _archived(objects, system.archive)
    if rpc:
        server = output / (SERVER + system.program)
        files[server] = _linked(machine, found, ("-s",), server.name)
    if system.package:
        package = package_files(sources.root / system.package)
        files |= {output / file: data for file, data in package.items()}
    return files, Built(library, archive, server)


def _device_library(machine: Machine, device: str, sources: Sources, name: str, report: Report | None) -> bytes:
    """The library of a type of devices, which is linked neither to the runtime nor to a driver."""
    objects = compiled(
        machine, device_sources(machine, device, sources), sources, report, ("-DTILEWRIGHT_GIVEN_RUNTIME",)
    )
    return _linked(machine, objects, (*machine.system.shared, "-s"), name)


def build_program(
    machine: Machine, files: Sequence[Path], output: Path, report: Report | None = None, sources: Sources | None = None
) -> Path:
    """Builds a program of C++ files that contains the runtime, stripped. Raises TVMError as `build_runtime` does."""
    sources = sources or native_sources()
    objects = compiled(machine, [*files, *runtime_sources(machine, sources)], sources, report)
    program = output.with_name(output.name + machine.system.program)
    write_together({program: _linked(machine, objects, ("-s",), program.name)}, [program])
    return program


def compiled(
    machine: Machine,
    files: Sequence[Path],
    sources: Sources,
    report: Report | None = None,
    options: Sequence[str] = (),
) -> dict[str, bytes]:
    """The objects of sources by name, several compiled at a time; those that the on-disk cache has are taken from there.

    Raises TVMError where zig is missing or fails.
    """
    cold = set((sources.root / COLD_LIST).read_text().split())
    folders = (sources.include, sources.root / "src")
    done: dict[str, bytes] = {}
    with temporary_folder("tilewright-native-") as folder, ThreadPoolExecutor(usable_processors()) as pool:
        waiting = {}
        for path in files:
            inside = path.is_relative_to(sources.root)
            name = path.relative_to(sources.root).as_posix() if inside else path.name
            is_cold = name.removeprefix("src/") in cold or name.startswith(("server/", f"{DEVICES}/"))
            level = COLD if is_cold else machine.hot
            command = [*zig.compiler(machine), *COMMON, *machine.system.options, *machine.options, *options, level]
            own = [f"-I{folder}" for folder in (*folders, *zig.source_folders(machine))]
            output = folder / (name.replace("/", "_").removesuffix(".cc") + ".o")
            make = functools.partial(zig.run, [*command, *own, "-c", str(path), "-o", str(output)], output, name)
            key = cache.key("native object", zig.version(), *command[3:], *_with_headers(path, folders))
            waiting[pool.submit(_cached, key, make)] = output.name
        try:
            for future in as_completed(waiting):
                done[waiting[future]] = future.result()
                if report is not None:
                    report(len(done), len(files), waiting[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return dict(sorted(done.items()))


def _linked(machine: Machine, objects: dict[str, bytes], options: Sequence[str], name: str) -> bytes:
    command = [*zig.compiler(machine), *options, *machine.system.links]

    def make() -> bytes:
        with temporary_folder("tilewright-native-") as folder:
            files = _written(objects, folder)
            return zig.run([*command, *files, "-o", str(folder / name)], folder / name, name)

    return _cached(cache.key("native link", zig.version(), *command[3:], name, *objects, *objects.values()), make)


def _exports(system: System, sources: Sources) -> list[str]:
    """Options for the names that the folders of the system list."""
    lists = [sources.root / "src" / "platform" / folder / EXPORT_LIST for folder in system.platform]
    return [f"-Wl,--export={name}" for path in lists if path.is_file() for name in path.read_text().split()]


def _archived(objects: dict[str, bytes], name: str) -> bytes:
    with temporary_folder("tilewright-native-") as folder:
        files = _written(objects, folder)
        return zig.run([*zig.command("ar"), "rcsD", str(folder / name), *files], folder / name, name)


def _written(objects: dict[str, bytes], folder: Path) -> list[str]:
    for name, data in objects.items():
        (folder / name).write_bytes(data)
    return [str(folder / name) for name in objects]


def _cached(key: str, make: Callable[[], bytes]) -> bytes:
    found = cache.get(key)
    if found is None:
        found = make()
        cache.put(key, found)
    return found


_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', re.MULTILINE)


def _with_headers(source: Path, folders: Sequence[Path]) -> list[bytes]:
    """The content of a source and of the headers in `folders` that it includes, under whichever conditions, in the order of their paths."""
    found: dict[Path, bytes] = {}
    waiting = [source]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = file.read_bytes()
            names = [os.fsdecode(name) for name in _INCLUDE.findall(found[file])]
            places = [Path(os.path.normpath(folder / name)) for name in names for folder in (file.parent, *folders)]
            waiting += [path for path in places if path.is_file()]
    return [found[path] for path in sorted(found)]
