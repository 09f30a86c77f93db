"""Compiled code on a device: what `create_micro_mod` loads, and the functions in it."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.micro import tasks
from tilewright.micro.debug_session import DebugSession
from tilewright.micro.device_runtime import objects_for
from tilewright.micro.errors import LinkError, MicroError, NoRoom
from tilewright.micro.export.report import largest_constants, listing, model_tensors
from tilewright.micro.linking.elf import ElfObject
from tilewright.micro.linking.link import Image
from tilewright.micro.tasks import PACKED_PREFIX
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.runtime import Module, NDArray
from tilewright.runtime.benchmark import BenchmarkResult
from tilewright.runtime.linking.export import library_objects
from tilewright.runtime.linking.symbols import CONSTANTS


class MicroFunction:
    """A function on a device. It takes the device's arrays, numbers, truth values and texts; kernels of models take arrays only.

    Eager calls return its value; deferred ones None. Errors of its checks are raised as they are on the host, faults as DeviceFault.
    """

    def __init__(self, module: MicroModule, name: str, address: int, kind: int) -> None:
        self.module, self.name, self.address, self.kind = module, name, address, kind

    def __call__(self, *args: Any) -> Any:
        session = self.module.session
        return session.call(self.name, self.address, self.kind, self.values(args), args)

    def values(self, args: tuple[Any, ...]) -> list[Any]:
        """The arguments as tasks hold them."""
        found = [self._value(k, a) for k, a in enumerate(args)]
        if self.kind == tasks.KERNEL:
            return [self._address(k, a) for k, a in enumerate(found)]
        return found

    def _value(self, k: int, value: Any) -> Any:
        if isinstance(value, NDArray):
            device = self.module.session.device
            if (value.device.device_type, value.device.device_id) != (device.device_type, device.device_id):
                raise ValueError(
                    f"{self.name}: argument {k} is on {value.device}, but the function is on {device}; copy it: tvm.nd.array(x, device)"
                )
            strides = None if value._compact() else value.strides
            return tasks.Tensor(value.data_address, value.shape, strides, value.dtype_code)
        if isinstance(value, np.generic):
            return value.item()
        return value

    def _address(self, k: int, value: Any) -> int:
        if not isinstance(value, tasks.Tensor):
            raise TypeError(
                f"{self.name}: argument {k} must be an array of the device, since kernels of models take no others"
            )
        return value.address

    def __repr__(self) -> str:
        return f"<{self.name} at {self.address:#x} of {self.module.session.board.name}>"


class MicroModule:
    """Code on a device.

    facts: the description of a model; None of functions. It stays loaded until `unload`, or until the session ends.
    """

    def __init__(
        self,
        session: DebugSession,
        image: Image,
        functions: Mapping[str, tuple[int, int]],
        facts: Mapping[str, Any] | None,
    ) -> None:
        self.session, self.image, self.facts = session, image, facts
        self._functions = {name: MicroFunction(self, name, *where) for name, where in functions.items()}

    def __getitem__(self, name: str) -> MicroFunction:
        return self.get_function(name)

    def get_function(self, name: str) -> MicroFunction:
        """The function of a name. Raises AttributeError, with the names, where there is none."""
        found = self._functions.get(name)
        if found is None:
            close = difflib.get_close_matches(name, self._functions, n=3)
            nearest = f"; nearest: {', '.join(close)}" if close else ""
            raise AttributeError(
                f"the module on {self.session.board.name} has no function {name!r}{nearest}; it has {', '.join(self._functions)}"
            )
        return found

    def implements_function(self, name: str) -> bool:
        """Whether there is a function of a name."""
        return name in self._functions

    @property
    def names(self) -> list[str]:
        """The names of its functions."""
        return [*self._functions]

    @property
    def entry_func(self) -> MicroFunction:
        """The only function, or the one called main."""
        name = "main" if "main" in self._functions else next(iter(self._functions))
        return self.get_function(name)

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    def unload(self) -> None:
        """Runs what waits, and gives the module's memory back."""
        self.session.synchronize()
        self.session.unload(self.image)
        self._functions.clear()

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | Callable[..., Any] = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that measures calls by the device's own clock: `number` runs make one result, `repeat` results are taken; seconds are
        ticks by the clock of the board's description. Under QEMU ticks mean something with instruction_shift only.

        min_repeat_ms: milliseconds of the device that a result takes at least, for which `number` grows. f_preproc: a function of this
        module, by name, or of Python, which is called with the arguments before each repeat. Raises ValueError for numbers below 1, and for
        cache_flush_bytes: boards have no caches that calls of others fill.
        """
        if number < 1 or repeat < 1:
            raise ValueError(f"number and repeat must be 1 at least, but are {number} and {repeat}")
        if cache_flush_bytes:
            raise ValueError("cache_flush_bytes is for machines with caches; a board runs nothing but the function")
        function, session = self.get_function(func_name), self.session
        before = self.get_function(f_preproc) if isinstance(f_preproc, str) and f_preproc else f_preproc

        def measure(*args: Any) -> BenchmarkResult:
            values, results, count = function.values(args), [], number
            for k in range(repeat):
                if callable(before):
                    before(*args)
                if k and cooldown_interval_ms and k % max(repeats_to_cooldown, 1) == 0:
                    time.sleep(cooldown_interval_ms / 1000)
                ticks = self._ticks(function, values, args, count)
                for _ in range(limit_zero_time_iterations):
                    if ticks * 1000 >= min_repeat_ms * session.board.clock_hz:
                        break
                    count = max(
                        2 * count, int(1.1 * count * min_repeat_ms * session.board.clock_hz / max(1000 * ticks, 1))
                    )
                    ticks = self._ticks(function, values, args, count)
                results.append(ticks / count / session.board.clock_hz)
            return BenchmarkResult(results)

        return measure

    def _ticks(self, function: MicroFunction, values: list[Any], args: tuple[Any, ...], count: int) -> int:
        """Ticks of so many calls."""
        session, ticks = self.session, 0
        while count:
            session.synchronize()
            some = min(count, session.batch.most // 2 or 1)
            for _ in range(some):
                session.submit(function.name, function.address, function.kind, values, args)
            session.synchronize()
            ticks += session.ticks
            count -= some
        return ticks


def create_micro_mod(c_mod: Any, config: Any = None) -> MicroModule:
    """Loads compiled code onto a device: its sections are allocated, relocated against the device's runtime, and sent.

    c_mod: a module of tvm.build or a model of relay.build, for the board's processor, of the targets c or llvm (`Board.target`). config:
    that of an open session, or None for the session that was opened last; or the session itself.

    Raises MicroError where no such session is open, and for code of another processor; LinkError for symbols that neither the code nor the
    runtime defines, and where the board's memory is too small.
    """
    session = config if isinstance(config, DebugSession) else DebugSession.current(config)
    if isinstance(c_mod, ExecutorFactoryModule):
        return _model(session, c_mod)
    if not isinstance(c_mod, Module) or c_mod.source is None or not c_mod.source.has_objects:
        raise TypeError(
            f"create_micro_mod takes a module of tvm.build or a model of relay.build, but was given {type(c_mod).__name__}"
        )
    if c_mod.imported_modules:
        raise MicroError(
            f"the module imports {len(c_mod.imported_modules)} others, which run elsewhere; a device takes code of its processor alone"
        )
    module = module_of(session, objects_for(session.board, library_objects([c_mod.source], prefix="")))
    if c_mod.source.type_key == "c":
        text = c_mod.get_source("c")
        module.image.sources = {p.name: text for p in module.image.places if p.is_function}
    lined = c_mod.source.lined
    module.image.lined = None if lined is None else lambda symbol: lined(lambda number: symbol)[0]
    return module


def module_of(session: DebugSession, objects: Sequence[ElfObject]) -> MicroModule:
    """Loads the packed functions of objects. Raises LinkError where there are none, and as `create_micro_mod` does."""
    roots = list(dict.fromkeys([
        s.name for o in objects for s in o.symbols if s.is_global and s.is_function and s.section >= 0 and s.name.startswith(PACKED_PREFIX)
    ]))  # fmt: skip
    if not roots:
        raise LinkError("the module has no functions that a device could run")
    image = session.load(objects, roots)
    functions = {name.removeprefix(PACKED_PREFIX): (image.symbols[name], tasks.PACKED) for name in roots}
    return MicroModule(session, image, functions, None)


def _model(session: DebugSession, lib: ExecutorFactoryModule) -> MicroModule:
    """A model of relay.build on a device: its kernels, its entry, its constants."""
    if lib.unpacked:
        raise MicroError(
            "a model with the option unpacked-api is firmware, not a module of a session; build it without it"
        )
    objects = objects_for(session.board, library_objects([lib.source()], prefix=""))
    facts = lib.metadata
    defined = {s.name for o in objects for s in o.symbols if s.is_global and s.section >= 0}
    kernels = list(dict.fromkeys([k["symbol"] for k in facts["kernels"]]))
    roots = [name for name in [*kernels, facts.get("entry"), CONSTANTS] if name in defined]
    try:
        image = session.load(objects, roots)
    except NoRoom as error:
        constants = listing(largest_constants(model_tensors(facts)))
        raise NoRoom(
            f"the model does not fit on {session.board.name}: {error}; {facts['constants_bytes']} bytes are constants, of which the largest"
            f" are {constants or 'none'}",
            error.missing,
        ) from error
    functions = {name: (image.symbols[name], tasks.KERNEL) for name in roots if name != CONSTANTS}
    if lib.target.kind.name == "c":
        for kernel in facts["kernels"]:
            text = lib.kernel_source(kernel["name"], "c")
            image.sources |= {kernel["symbol"]: text, f"{kernel['symbol']}_impl": text}
    kernels_of = {symbol: k["name"] for k in facts["kernels"] for symbol in (k["symbol"], f"{k['symbol']}.impl")}
    image.lined = lambda symbol: lib.texts.lined(kernels_of[symbol], symbol) if symbol in kernels_of else None
    return MicroModule(session, image, functions, facts)


__all__ = ["MicroFunction", "MicroModule", "create_micro_mod", "module_of"]
