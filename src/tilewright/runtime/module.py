"""Modules: compiled code by name; loading, importing, exporting and timing it."""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tilewright.runtime import _ffi
from tilewright.runtime.benchmark import BenchmarkResult
from tilewright.runtime.device import DEVICES_OF_A_SESSION, Device
from tilewright.runtime.linking.module_source import HELD, ModuleSource
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.packed_func import PackedFunc, global_func, register_func
from tilewright.support.errors import RPCError
from tilewright.support.files import write_whole
from tilewright.support.near import did_you_mean


class ModulePropertyMask:
    """What a module can be used for: kept as bytes in a library, called, linked into a library."""

    BINARY_SERIALIZABLE = 1
    RUNNABLE = 2
    DSO_EXPORTABLE = 4


# What a module was made from, kept beside the native object: Python objects for one module are many and short-lived.
_sources: dict[int, ModuleSource] = {}


class Module(_ffi.Object):
    """Compiled code, or a library of it."""

    entry_name = "__tvm_main__"

    @property
    def type_key(self) -> str:
        """Which kind of module it is."""
        source = self.source
        if source is not None:
            return source.type_key
        key: str = global_func("runtime.ModuleGetTypeKey")(self)
        return key

    kind = type_key

    @property
    def source(self) -> ModuleSource | None:
        """Its source program, if it was compiled in this process."""
        return _sources.get(self.handle_address)

    @property
    def imported_modules(self) -> list[Module]:
        """Modules that look-ups may go on to."""
        found: list[Module] = global_func("runtime.ModuleImports")(self)
        return found

    imports = imported_modules

    @property
    def format(self) -> str:
        """The form in which `save` writes it when the file's name does not tell."""
        return "o" if self.is_dso_exportable else ""

    @property
    def is_runnable(self) -> bool:
        """Whether its functions can be called here."""
        source = self.source
        return source is None or not source.why_not_here

    @property
    def is_dso_exportable(self) -> bool:
        """Whether it holds objects that `export_library` can link."""
        source = self.source
        return source is not None and source.has_objects

    @property
    def is_binary_serializable(self) -> bool:
        """Whether it is kept as data inside a library; compiled code is linked instead."""
        source = self.source
        return source is not None and source.binary is not None

    @property
    def is_device_module(self) -> bool:
        """Whether it holds code for a device other than the CPU."""
        return self.type_key in ("cuda", "opencl", "metal", "rocm", "vulkan", "vpi", "ext_dev")

    def get_property_mask(self) -> int:
        """The kinds of use as bits of ModulePropertyMask."""
        binary, runs, linked = self.is_binary_serializable, self.is_runnable, self.is_dso_exportable
        return (
            (ModulePropertyMask.BINARY_SERIALIZABLE if binary else 0)
            | (ModulePropertyMask.RUNNABLE if runs else 0)
            | (ModulePropertyMask.DSO_EXPORTABLE if linked else 0)
        )

    def clear_imports(self) -> None:
        """Forgets the modules that it imports."""
        global_func("runtime.ModuleClearImports")(self)

    def import_module(self, module: Module) -> None:
        """Adds a module to those that look-ups may go on to."""
        global_func("runtime.ModuleImport")(self, module)

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether it has a function of that name."""
        return global_func("runtime.ModuleGetFunction")(self, name, query_imports) is not None

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """The function of a name; AttributeError when there is none."""
        source = self.source
        imported = query_imports or (source is not None and source.has_imported_functions)
        found: PackedFunc | None = global_func("runtime.ModuleGetFunction")(self, name, imported)
        if found is None:
            self._refuse_elsewhere(f"the module's function `{name}`")
            raise AttributeError(f"the module has no function `{name}`{self.near_functions(name)}")
        return found

    def near_functions(self, name: str) -> str:
        """ "; did you mean ...?" with near names of its functions, where they can be listed: those of an executor or a library, also
        on a server."""
        if self.type_key == "rpc":
            ask = global_func("rpc.SessionFunction")(self, "tvm.rpc.server.near_functions")
            return ask(self, name) if ask is not None else ""
        path: str = global_func("runtime.ModuleLabel")(self)
        near: str = global_func("runtime.NearFunctions")(self, name)
        return near or did_you_mean(name, _linked[path] if path in _linked else _functions_in(path))

    def _refuse_elsewhere(self, what: str) -> None:
        """AttributeError where the code is another machine's."""
        source = self.source
        if source is not None and source.why_not_here:
            raise AttributeError(
                f"{what} cannot be called here: {source.why_not_here}; export the module and load it on such a machine, or compile for"
                " this one"
            )

    def __getitem__(self, name: str) -> PackedFunc:
        if not isinstance(name, str):
            raise ValueError("a module is indexed by a function's name")
        return self.get_function(name)

    @property
    def entry_func(self) -> PackedFunc:
        """The main function."""
        return self.get_function(self.entry_name)

    def __call__(self, *args: Any) -> Any:
        return self._entry()(*args)

    def _entry(self) -> PackedFunc:
        for name in (self.entry_name, "main", "default_function"):
            found: PackedFunc | None = global_func("runtime.ModuleGetFunction")(self, name, False)
            if found is not None:
                return found
        self._refuse_elsewhere("the module")
        raise AttributeError("the module has no main function; call one by name: module[name](...)")

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {self.handle_address:x})"

    def time_evaluator(
        self,
        func_name: str,
        dev: _ffi.Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | PackedFunc | Callable[..., Any] = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that measures a call natively: `number` runs make one result, `repeat` results are taken. The clock is that of the
        device, where it has one; else it is the CPU's, once the device has done all."""
        plan = (
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            cache_flush_bytes,
        )
        if self.type_key == "rpc":
            return self._remote_evaluator(func_name, dev, *plan, f_preproc)
        before: Any = None
        if isinstance(f_preproc, str):
            before = global_func(f_preproc) if f_preproc else None
        else:
            before = f_preproc
        function = self._entry() if func_name == self.entry_name else self.get_function(func_name)
        return _evaluator(function, *plan, before, dev)

    def _remote_evaluator(
        self, func_name: str, dev: _ffi.Device, *plan: int | str | PackedFunc | Callable[..., Any]
    ) -> Callable[..., BenchmarkResult]:
        """The same by the clock of the other side, whose device `dev` is."""
        if not isinstance(plan[-1], str):
            raise ValueError("the function before each repeat is one of the server's: f_preproc is its name")
        make = global_func("rpc.SessionFunction")(self, "runtime.RPCTimeEvaluator")
        if make is None:
            raise RPCError("the server cannot measure: it has no function `runtime.RPCTimeEvaluator`")
        return _results_of(make(self, func_name, dev.device_type % DEVICES_OF_A_SESSION, dev.device_id, *plan))

    def get_source(self, fmt: str = "") -> str:
        """The module's text: `ll` LLVM IR, `s` or `asm` assembly, `c` C; ValueError lists the formats there are."""
        source = self.source
        texts = source.texts if source else {}
        key = {"": next(iter(texts), ""), "asm": "s"}.get(fmt, fmt)
        if key not in texts:
            raise ValueError(f"the module has no source in format `{fmt}`; available: {', '.join(texts) or 'none'}")
        text = texts[key]()
        return text if isinstance(text, str) else text.decode("utf-8", "replace")

    inspect_source = get_source

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Writes the module in one format: an object (`o`; of a module with several, one that is linked of all), or one of its texts."""
        source = self._exportable()
        fmt = fmt or Path(file_name).suffix.lstrip(".")
        if fmt in ("o", "obj"):
            if len(source.objects) == 1 and not source.with_imports:
                write_whole(file_name, source.objects[0])
                return
            from tilewright.runtime.linking.export import export_library

            sources = [source, *(m._exportable() for m in _all_imports(self))]
            with tempfile.TemporaryDirectory() as folder:
                whole = os.path.join(folder, "whole.o")
                # What an object is linked into tells its own target.
                export_library(whole, sources, None, [], None, {}, facts=False)
                write_whole(file_name, Path(whole).read_bytes())
        else:
            text = source.alone() if fmt == "c" and source.alone is not None else self.get_source(fmt)
            write_whole(file_name, text.encode())

    def _exportable(self) -> ModuleSource:
        source = self.source
        if source is None or not (source.has_objects or source.binary or source.texts):
            raise ValueError(
                f"a module of kind `{self.type_key}` holds no objects to export; export the module that was built. Functions of"
                " Python are exported by from_functions(..., save=...), where something can make them again from bytes"
            )
        return source

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        *,
        fcompile: Callable[..., Any] | None = None,
        fpack_imports: Callable[..., str] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> str:
        """Writes a library: `.so` linked, `.a` a static library, `.o` one relocatable object, `.tar` the objects; text formats too.

        Imported modules' objects come along. `fcompile(path, objects, **kwargs)` replaces the linker (contrib.cc); its attributes say
        what it takes (docs/packages.md). `fpack_imports(module, is_system_lib, symbol_prefix, workspace_dir)` returns the path of a file
        that holds the imports, instead of our own. addons: more objects. kwargs: `options` and `cc` of the linker or compiler.
        """
        from tilewright.runtime.linking.export import export_library

        sources = [self._exportable(), *(m._exportable() for m in _all_imports(self))]
        path = os.fspath(file_name)
        if Path(path).suffix in (".ll", ".s", ".c"):
            self.save(path)
        else:
            own = sources[0]
            packed = fpack_imports(self, own.system_lib, own.prefix, workspace_dir) if fpack_imports is not None else ""
            export_library(path, sources, fcompile, list(addons or ()), workspace_dir, kwargs, packed)
        return path

    @staticmethod
    def from_symbols(
        symbols: Mapping[str, int | NDArray], keep_alive: Any = None, source: ModuleSource | None = None
    ) -> Module:
        """A module over addresses of code (or arrays of data) made in this process; `keep_alive` lives as long as any of its functions."""
        return _from_symbols(symbols, keep_alive, "", None, source)

    @staticmethod
    def from_functions(
        functions: Mapping[str, Callable[..., Any]] | Callable[[str], Any],
        type_key: str,
        source: ModuleSource | None = None,
        save: Callable[[], bytes] | None = None,
    ) -> Module:
        """A module of Python functions: by name, or found by a function that returns None for other names.

        save: returns the bytes that represent the module in an exported library; the function that is registered as
        `runtime.module.loadbinary_<type_key>` makes the module of them when that library is loaded.
        """
        keeper = _Keeper(functions)

        def find(name: str) -> Any:
            held = keeper.held
            return held.get(name) if isinstance(held, Mapping) else held(name)

        module: Module = global_func("runtime.ModuleFromFinder")(type_key, find)
        source = source if source is not None else ModuleSource()
        source.type_key = type_key
        source.binary = save
        keeper.address = module.handle_address
        _sources[keeper.address] = source
        return module

    @staticmethod
    def from_aot(
        symbols: Mapping[str, int | NDArray],
        metadata: str | bytes,
        constants: NDArray | None = None,
        keep_alive: Any = None,
        source: ModuleSource | None = None,
    ) -> Module:
        """A compiled model over addresses of this process; `module["default"](device)` makes an executor."""
        text = metadata.decode() if isinstance(metadata, bytes) else metadata
        return _from_symbols(symbols, keep_alive, text, constants, source)


_ffi.register_class(73, Module)


def _evaluator(*plan: Any) -> Callable[..., BenchmarkResult]:
    return _results_of(global_func("runtime.TimeEvaluator")(*plan))


def _results_of(timed: PackedFunc) -> Callable[..., BenchmarkResult]:
    def evaluator(*args: Any) -> BenchmarkResult:
        """Runs and measures."""
        data: bytes = timed(*args)
        return BenchmarkResult(struct.unpack(f"{len(data) // 8}d", data))

    return evaluator


def time_function(
    function: Callable[..., Any],
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: int = 0,
    limit_zero_time_iterations: int = 100,
    cooldown_interval_ms: int = 0,
    repeats_to_cooldown: int = 1,
) -> BenchmarkResult:
    """Times a callable as time_evaluator does a module's function."""
    return _evaluator(
        function,
        number,
        repeat,
        min_repeat_ms,
        limit_zero_time_iterations,
        cooldown_interval_ms,
        repeats_to_cooldown,
        0,
        None,
        _ffi.Device(1, 0),
    )()


class _Keeper:
    """Keeps what compiled code needs; its end is the end of the module, so the record of sources goes with it."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.address = 0

    def __del__(self) -> None:
        _sources.pop(self.address, None)


def module_of_bytes(make: str, data: bytes, source: ModuleSource) -> Module:
    """What a function of the runtime makes of bytes, with what it was made from."""
    keeper = _Keeper(None)
    module: Module = global_func(make)(data, keeper)
    keeper.address = module.handle_address
    _sources[keeper.address] = source
    return module


def _from_symbols(
    symbols: Mapping[str, int | NDArray],
    keep_alive: Any,
    metadata: str,
    constants: NDArray | None,
    source: ModuleSource | None,
) -> Module:
    keeper = _Keeper(keep_alive)
    flat = [i for n, at in symbols.items() for i in (n, at if isinstance(at, NDArray) else int(at))]
    module: Module = global_func("runtime.ModuleFromSymbols")(keeper, metadata, constants, *flat)
    if source is not None:
        keeper.address = module.handle_address
        _sources[keeper.address] = source
    return module


def _all_imports(module: Module) -> list[Module]:
    found: list[Module] = []
    for other in module.imported_modules:
        found += [other, *_all_imports(other)]
    return found


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Loads a library: `.so` (or `.dylib`), or `.o`, `.a` and `.tar`, which are linked first.

    A file of another format (`fmt`, or the end of its name) goes to the global function `runtime.module.loadfile_<fmt>`, if there is
    one. Raises ValueError for files of other machines, such as `.wasm`.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise ValueError(
            f"{name} is no file, so it is no library"
            if os.path.exists(name)
            else f"cannot find the library file {name}"
        )
    if name.endswith(".wasm"):
        from tilewright.runtime.linking.export import need_own_kind

        need_own_kind(name, [Path(name)])
    if name.endswith((".o", ".tar", ".a", ".lib")):
        from tilewright.runtime.linking.export import linked_for_loading

        if name.endswith((".o", ".tar")):
            global_func("runtime.CheckSeal")(name)
        with linked_for_loading(name) as library:
            module: Module = global_func("runtime.ModuleLoadFromFile")(library, fmt)
            _linked[library] = _functions_in(library)
    else:
        module = global_func("runtime.ModuleLoadFromFile")(name, fmt)
    _learn_strings(module)
    return module


_linked: dict[str, list[str]] = {}
"""The functions in libraries that were linked for loading, whose files are gone, by these files."""


def _functions_in(path: str) -> list[str]:
    """Names of the functions in a library; none for what is no library."""
    from tilewright.runtime.linking.symbol_file import symbol_file

    try:
        symbols = symbol_file(Path(path).read_bytes()).symbols
    except (OSError, ValueError):
        return []
    prefix = "__tvm_ffi_"
    return [s.removeprefix(prefix) for s in symbols if s.startswith(prefix)]


def load_static_library(path: str | os.PathLike[str], func_names: Sequence[str]) -> Module:
    """An object (.o) or a static library (.a) as a module that others import: `export_library` links it into theirs. func_names: the
    functions in it. They cannot be called before."""
    from tilewright.runtime.linking.archive_file import MAGIC, members

    data = Path(path).read_bytes()
    source = ModuleSource(list(members(data).values()) if data.startswith(MAGIC) else [data])
    source.why_not_here = f"{os.fspath(path)} has to be linked into a library"
    names = list(func_names)

    def unlinked(*args: Any) -> None:
        raise ValueError(
            f"a function of the static library {os.fspath(path)} cannot be called before it is linked into a library"
        )

    return Module.from_functions(dict.fromkeys(names, unlinked), "static_library", source)


def _learn_strings(library: Module) -> None:
    """Strings that the model of a library contains are known from now on (`host_functions/strings.py`)."""
    if not library.implements_function("get_metadata"):
        return
    text = library["get_metadata"]()
    if '"strings"' in text:
        import_module("tilewright.runtime.host_functions.strings").string_table.learn(json.loads(text))


def _load_held(data: bytes) -> Module:
    """The module of code that a library holds, which the Python module that made it loads."""
    name, _, rest = data.partition(b"\n")
    module: Module = import_module(name.decode()).load_held(rest)
    return module


register_func(f"runtime.module.loadbinary_{HELD}", _load_held, override=True)


def system_lib(symbol_prefix: str = "") -> Module:
    """The module of functions that were linked into the program and registered themselves. symbol_prefix: that of a library
    ("system_lib_prefix"); a name is looked up with it first, then without."""
    module: Module = global_func("runtime.SystemLib")(symbol_prefix)
    return module


def enabled(target: str) -> bool:
    """Whether code for a target can run in this process: on the CPU, or on a device that is here."""
    name = (target.split() or [""])[0]
    kind = Device.DEVICE_NAME_TO_TYPE.get("cuda" if name == "gpu" else name, Device.kDLCPU)
    return name in ("llvm", "cpu", "c", "stackvm") or (kind != Device.kDLCPU and Device(kind, 0).exist)


def num_threads() -> int:
    """Threads that parallel loops use."""
    count: int = global_func("runtime.NumThreads")()
    return count


def config_threadpool(mode: int = 1, nthreads: int | None = None) -> None:
    """Sets the number of threads of parallel loops, 1 to 1024 (ValueError); None: all that the process may use, which is
    the most that run in any case."""
    global_func("runtime.config_threadpool")(mode, nthreads)


def set_num_threads(count: int | None) -> None:
    """Sets the number of threads of parallel loops, 1 to 1024 (ValueError); None means all that the process may use."""
    config_threadpool(1, count)
