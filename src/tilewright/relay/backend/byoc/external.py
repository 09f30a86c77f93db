"""External code generators: functions with the attribute Compiler become modules, whose functions compiled code calls by symbol.

A generator is the global function `relay.ext.<compiler>`. It takes a relay function, and returns a runtime.Module with a packed function
of the name in the attribute global_symbol. Its arguments are the tensors of the arguments, then those of the results.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import runtime, te, tir
from tilewright.codegen.backend import Loaded
from tilewright.ir import IRModule
from tilewright.relay.backend.planning.constants import ConstantPool, aligned_bytes
from tilewright.relay.expr import Constant, Function
from tilewright.relay.functor import post_order
from tilewright.runtime.linking.c_source import CSource
from tilewright.runtime.linking.export import LIBRARY_BIN
from tilewright.runtime.linking.symbols import LIBRARY
from tilewright.support.errors import TVMError
from tilewright.target import Target

EXTERNAL = "__tilewright_external"
"""The symbol of the constants that external code receives, and of their description."""


def is_external(func: Function) -> bool:
    """Whether an external code generator compiles a primitive function."""
    return "Compiler" in func.attrs or bool(func.attrs.get("Extern", 0))


def symbol_of(func: Function) -> str:
    """The name of an external function in the compiled code."""
    return str(func.attrs.get("global_symbol", ""))


def external_functions(mod: IRModule) -> dict[str, Function]:
    """The external functions that a module calls, by symbol."""
    found: dict[str, Function] = {}
    for f in mod.functions.values():
        if not isinstance(f, Function):
            continue
        for e in post_order(f):
            if isinstance(e, Function) and is_external(e) and e is not f:
                found.setdefault(symbol_of(e), e)
    return found


class ExternalCode:
    """The modules of external code generators in one compilation, and the constants that they receive at run time."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.modules: list[runtime.Module] = []
        self.symbols: list[str] = []
        self.owners: list[runtime.Module] = []
        """The module of each symbol."""
        self.receivers: list[tuple[str, list[int]]] = []
        """(function that takes constants, their numbers in the pool)."""
        self.pool = ConstantPool()
        self._data: dict[str, runtime.NDArray] = {}
        self._base: tuple[Any, runtime.Module] | None = None

    def __bool__(self) -> bool:
        return bool(self.symbols)

    def sources(self) -> list[runtime.ModuleSource]:
        """The modules of external code, for export."""
        return [m._exportable() for module in self.modules for m in _with_imports(module)]

    def data(self) -> dict[str, runtime.NDArray]:
        """The constants that modules receive, by their symbol in a library."""
        if self.receivers and not self._data:
            self._data = {EXTERNAL: runtime.from_dlpack(self._described())}
        return self._data

    def exported(self) -> list[str]:
        """Symbols that a library exports for external code, in addition to its kernels."""
        linked = [s for s, m in zip(self.symbols, self.owners, strict=True) if m.is_dso_exportable]
        inits = [name for name, _ in self.receivers if name.removeprefix("__init_") in linked]
        held = any([s.binary is not None for s in self.sources()]) if self.symbols else False
        found = [*self.slots(), *self.data(), *[f"__tvm_ffi_{name}" for name in (*linked, *inits)]]
        return [*found, LIBRARY_BIN] if held else found

    def slots(self) -> list[str]:
        """The symbols that the library's objects export for `base`."""
        return [LIBRARY] if self else []

    def without_slots(self, symbols: Mapping[str, int]) -> dict[str, int]:
        """The symbols of a module for the same objects, without those of `base`."""
        return {name: at for name, at in symbols.items() if name != LIBRARY}

    def attach(self, module: runtime.Module) -> runtime.Module:
        """Imports the modules of external code into a module, and returns it."""
        for other in self.modules:
            module.import_module(other)
        return module

    def base(self, loaded: Loaded) -> Any:
        """The owner of objects that call external code. It keeps the objects and the modules of that code alive."""
        if not self:
            return loaded
        if self._base is None or self._base[0] is not loaded:
            symbols: dict[str, Any] = {LIBRARY: loaded.symbols[LIBRARY]}
            symbols |= self.data()
            self._base = (loaded, self.attach(runtime.Module.from_symbols(symbols, loaded)))
        return self._base

    def _described(self) -> Any:
        """Bytes: the length of a JSON text, the text, and the constants from the next multiple of 64 on."""
        facts = [
            {
                "init": name,
                "constants": [
                    {
                        "dtype": self.pool.arrays[i].dtype.name,
                        "shape": list(self.pool.arrays[i].shape),
                        "offset": self.pool.offsets[i],
                    }
                    for i in places
                ],
            }
            for name, places in self.receivers
        ]
        text = json.dumps(facts).encode()
        start = -(-(8 + len(text)) // 64) * 64
        whole = aligned_bytes(start + max(self.pool.bytes, 1))
        head = struct.pack("<Q", len(text)) + text
        whole[: len(head)] = np.frombuffer(head, np.uint8)
        whole[start : start + self.pool.bytes] = self.pool.blob()
        return whole

    def add(self, func: Function) -> None:
        """Runs the code generator of a function. Raises TVMError if none is registered, or its result is not a module with the function."""
        compiler, symbol = str(func.attrs["Compiler"]), symbol_of(func)
        name = f"relay.ext.{compiler}"
        if not symbol:
            raise TVMError(
                f"a function of the compiler {compiler} has no attribute global_symbol, by which its code is found;"
                f" PartitionGraph gives one:\n{func}"
            )
        generator = runtime.get_global_func(name, allow_missing=True)
        if generator is None:
            raise TVMError(missing_generator(compiler, symbol))
        try:
            made = generator(func)
        except Exception as error:
            error.add_note(f"while the code generator {name} was given {symbol}")
            raise
        if not isinstance(made, runtime.Module):
            raise TVMError(
                f"{name} must return a runtime.Module with the function {symbol}, but returned"
                f" {type(made).__name__}{'' if made is None else f': {made!r}'}. runtime.c_source_module makes one of C source,"
                " runtime.Module.from_functions one of functions of Python"
            )
        self.take(made, symbol, f"the module that {name} returned")
        self.hand_over(func, made, symbol, name)

    def take(self, module: runtime.Module, symbol: str, what: str) -> None:
        """Adds a module that has the function `symbol`."""
        source = module.source
        if isinstance(source, CSource):
            if not self.target.is_native:
                source.triple = self.target.triple
            source.native = self.target.is_host
        known = source.func_names if isinstance(source, CSource) else []
        if symbol not in known and not module.implements_function(symbol, True):
            names = f"; it has {', '.join(known)}" if known else ""
            raise TVMError(f"{what}, a {module.type_key} module, has no function {symbol}{names}")
        if not any([m.same_as(module) for m in self.modules]):
            self.modules.append(module)
        self.symbols.append(symbol)
        self.owners.append(module)

    def take_kernels(self, modules: Sequence[runtime.Module]) -> None:
        """Adds modules of device kernels, which the library's functions launch."""
        for module in modules:
            self.modules.append(module)
            self.symbols.append("")
            self.owners.append(module)

    def hand_over(self, func: Function, module: runtime.Module, symbol: str, name: str) -> None:
        """Records the constants that a module requests by its function get_const_vars."""
        source = module.source
        if isinstance(source, CSource):
            wanted = list(source.const_vars)
        elif module.implements_function("get_const_vars"):
            wanted = [str(n) for n in module["get_const_vars"]()]
        else:
            return
        if not wanted:
            return
        known = constants_of(func, symbol)
        places = []
        for n in wanted:
            if n not in known:
                raise TVMError(
                    f"the code of {symbol} asks for the constant {n}, but there are {', '.join(known) or 'none'};"
                    f" {name}.constant_updater, a function of the relay function and its symbol, may return them by name"
                )
            places.append(self.pool.add(known[n]))
        self.receivers.append((f"__init_{symbol}", places))


def missing_generator(compiler: str, symbol: str) -> str:
    """The message for a compiler without a registered code generator."""
    prefix = "relay.ext."
    names = [n.removeprefix(prefix) for n in runtime.list_global_func_names() if n.startswith(prefix)]
    known = sorted({n.partition(".")[0] for n in names if "." not in n})
    return (
        f"{symbol} belongs to the compiler {compiler}, but no code generator is registered for it:"
        f' register a function that takes a relay.Function and returns a runtime.Module, @register_func("{prefix}{compiler}").'
        f" Registered are: {', '.join(known) or 'none'}"
    )


def constants_in(func: Function, symbol: str) -> dict[str, np.ndarray]:
    """The constants of an external function by the names that code generators use: <symbol>_const_<number>, in order of evaluation."""
    found = [e for e in post_order(func.body) if isinstance(e, Constant)]
    return {f"{symbol}_const_{i}": e.value for i, e in enumerate(found)}


def constants_of(func: Function, symbol: str) -> dict[str, np.ndarray]:
    """The constants that the code of an external function may request: those of `relay.ext.<compiler>.constant_updater` if it is
    registered, otherwise those in the function."""
    name = f"relay.ext.{func.attrs['Compiler']}.constant_updater"
    updater = runtime.get_global_func(name, allow_missing=True)
    if updater is None:
        return constants_in(func, symbol)
    made = updater(func, symbol)
    if not isinstance(made, Mapping):
        raise TVMError(f"{name} must return a dict from names to tensors, but returned {type(made).__name__}")
    return {str(k): np.asarray(v.numpy() if hasattr(v, "numpy") else v) for k, v in made.items()}


def generate(mod: IRModule, target: Target) -> ExternalCode:
    """The external code of a module, in which each call of an external function has the function itself."""
    code = ExternalCode(target)
    given: Sequence[Any] = (mod.attrs or {}).get("external_mods", ())
    for symbol, func in external_functions(mod).items():
        if "Compiler" in func.attrs:
            code.add(func)
            continue
        owner = next((m for m in given if m.implements_function(symbol, True)), None)
        if owner is None:
            raise TVMError(
                f"{symbol} is marked Extern, but none of the {len(given)} modules in the IRModule's attribute external_mods"
                " has a function of that name"
            )
        code.take(owner, symbol, "a module of the attribute external_mods")
    return code


def _with_imports(module: runtime.Module) -> Iterator[runtime.Module]:
    yield module
    for other in module.imported_modules:
        yield from _with_imports(other)


def external_tensors(
    symbol: str, inputs: Sequence[te.Tensor], results: Sequence[Any]
) -> tuple[list[te.Tensor], list[te.Tensor]]:
    """(inputs, outputs) of a stage that calls the packed function of an external function on all tensors."""
    made = te.extern(
        [t.shape for t in results],
        list(inputs),
        lambda ins, outs: tir.call_packed(symbol, *ins, *outs),
        name=symbol,
        dtype=[str(t.dtype) for t in results],
    )
    return list(inputs), [made] if isinstance(made, te.Tensor) else list(made)


@runtime.register_func("relay.ext.ccompiler", override=True)  # type: ignore[untyped-decorator]
def _ccompiler(func: Function) -> runtime.Module:
    from tilewright.relay.backend.byoc.ccompiler import generate as to_c

    return to_c(func)


__all__ = ["ExternalCode", "constants_in", "external_tensors", "generate", "is_external", "symbol_of"]
