"""Interface between the compiler and code generators, and the table of those that are registered.

The driver, the graph compiler, its cache and its executors use a `BackEnd` of the target's kind, and know none of them by name. Code goes
through it in two forms: `Code` is text, which people can read and the cache can compare; an object is what `compile` makes of it, bytes
that the cache keeps, `load` brings into this process and an exported library holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import ELF, ObjectKind
from tilewright.target import Target
from tilewright.target.kinds import kind_named

if TYPE_CHECKING:
    from tilewright.ir.transform import Pass
    from tilewright.tir import PrimFunc

AOT = "aot"
"""Value of the attribute "calling_conv" of kernels: they are exported as `int32_t name(void** args)` and return 0 or an error code."""

IS_SCHEDULED = "tir.is_scheduled"
"""The attribute of functions that come with a schedule of their own."""
IN_PLACE = "tilewright.in_place"
"""Attribute of a kernel: the numbers of the parameters whose memory may be one and the same. Each of their elements is read only before
it is written."""


BLOCKS, LOOPS, VECTORS = "blocks", "loops", "vectors"
"""How far programs are lowered for a back end: not at all, as schedules left them (blocks, buffers of several dimensions); to loops over
flat buffers, whose marks (parallel, vectorized, unrolled) are still to be obeyed or may be ignored; to loops and explicit vectors."""


class Code(NamedTuple):
    """Functions as text in the back end's own language. effort: how much it is to be optimised, on the back end's own scale."""

    text: str
    effort: int = 1


class WholeModel(NamedTuple):
    """A model, for a back end that writes whole models as source.

    name: what its symbols begin with. kernels: lowered, each a module of its own. entry: the function `run` beside the kernels that it
    calls, declared only; its arguments are the addresses of inputs, outputs, constants and workspace. facts: the metadata. registered:
    symbols that are registered with the runtime when the code is loaded. unpacked: it is for programs without the runtime; functions
    take their arguments directly.
    """

    name: str
    kernels: Mapping[str, IRModule]
    entry: IRModule
    run: str
    facts: Mapping[str, Any]
    constants: Any
    registered: Sequence[str]
    unpacked: bool


class Loaded(Protocol):
    """Objects in this process: addresses by symbol; the code lives as long as this."""

    symbols: dict[str, int]


class BackEnd(ABC):
    """A code generator for one kind of target. It has no state, and is safe under threads."""

    kind: ClassVar[str]
    """The kind of target."""
    forms: ClassVar[tuple[str, ...]]
    """Forms in which `text` gives code, the back end's own language first."""
    version: ClassVar[str] = ""
    """Changes with the code that is made, where the back end is not part of this package: the cache finds nothing of other versions."""
    takes: ClassVar[str] = VECTORS
    """How far programs are lowered before they are emitted: BLOCKS, LOOPS or VECTORS."""
    scheduled: ClassVar[bool] = True
    """Whether models come in the layouts, and their kernels in the tiles, that suit the CPU of the target; else as their operators are
    defined, fused and nothing more."""
    packed: ClassVar[bool] = True
    """Whether `build` is given packed functions, as the driver's pipeline for hosts makes them; else functions as they were lowered."""
    linkable: ClassVar[bool] = True
    """Whether objects are machine code, which linkers take. A library holds others as data (`held`), which this back end loads again."""

    writes_models: ClassVar[bool] = False
    """Whether `write` writes whole models as source."""

    launches: ClassVar[bool] = False
    """Whether programs are split into functions of the host and kernels for a device, which those launch (codegen.device)."""

    @property
    def identity(self) -> str:
        """Key that distinguishes back ends of one kind in the cache."""
        return f"{type(self).__module__}.{type(self).__qualname__} {self.version}"

    def toolchain(self, target: Target) -> str:
        """Dependency of its objects outside this package, such as a compiler of the machine; part of the cache key."""
        return ""

    def passes(self, target: Target) -> Sequence[Pass]:
        """Passes to run on programs before they are emitted, besides what `takes` implies."""
        return ()

    def host(self, target: Target) -> Target:
        """What the functions of a target are compiled for that this process calls."""
        return target

    def launched(self, objects: Sequence[bytes], target: Target) -> tuple[list[bytes], list[Any]]:
        """(what linkers take, the modules that the library imports) of the objects of kernels."""
        return list(objects), []

    @abstractmethod
    def build(self, mod: IRModule, target: Target) -> Any:
        """A runtime.Module of the module's functions, which tvm.build returns."""

    @abstractmethod
    def emit(self, mod: IRModule, target: Target) -> Code:
        """The code of a kernel: functions of the calling convention AOT."""

    @abstractmethod
    def emit_entry(self, mod: IRModule, names: Sequence[str], target: Target) -> Code:
        """The code of the named functions, which call others of the module that are only declared, and of the variables that the runtime
        fills in when it loads the code (tilewright.runtime.linking.symbols); these alone where no function is named."""

    @abstractmethod
    def emit_registration(self, symbols: Sequence[str], target: Target) -> Code:
        """Code that registers these symbols with the runtime when it is loaded: a system library."""

    @abstractmethod
    def compile(self, code: Code, target: Target) -> bytes:
        """The object of code."""

    def object_kind(self, target: Target) -> ObjectKind:
        """The kind of its objects for a target, known before any is made. Raises TVMError if none can be written for it."""
        return ObjectKind.host() or ObjectKind(ELF)

    @abstractmethod
    def text(self, code: Code, target: Target, form: str) -> str:
        """Code in one of the `forms`."""

    @abstractmethod
    def load(self, objects: Iterable[bytes], exports: Iterable[str]) -> Loaded:
        """Brings objects into this process. TVMError where they do not fit together, or not into it."""

    def write(self, model: WholeModel, target: Target, archive: bool) -> dict[str, Code]:
        """A whole model as source: files by suffix, or, for an archive, by name; what `compile` takes lies below src/."""
        raise TVMError(f"models for target kind {self.kind!r} are not written as source")

    def held(self, objects: Sequence[bytes], exports: Sequence[str]) -> bytes:
        """Content of a library for objects that no linker takes: a line with the name of a module, whose function `load_held` makes a
        runtime.Module of what follows."""
        raise TVMError(f"code for target kind {self.kind!r} is linked, not held")

    def companions(self, target: Target) -> list[bytes]:
        """The objects that an exported library for the target holds beside its kernels."""
        return []


class LazyBackEnd(NamedTuple):
    """The module whose `BACK_END` is a back end; it is imported when it is first asked for. extra: of this package, what it needs.
    toolchain: the module with a function of that name for `BackEnd.toolchain`, which the cache asks without the back end."""

    module: str
    extra: str = ""
    toolchain: str = ""


_BACK_ENDS: dict[str, BackEnd | LazyBackEnd] = {
    "llvm": LazyBackEnd("tilewright.codegen.llvm.backend"),
    "c": LazyBackEnd("tilewright.codegen.source.c.backend", toolchain="tilewright.codegen.source.c.toolchain"),
    "interp": LazyBackEnd("tilewright.codegen.interp.backend"),
}
"""By kind of target."""


def register_back_end(back_end: BackEnd, override: bool = False) -> None:
    """Registers a code generator for its kind of target. Raises TVMError if there is no such kind, or, unless `override`, if it has
    a code generator."""
    if kind_named(back_end.kind) is None:
        raise TVMError(
            f"there is no target kind {back_end.kind!r}; make one first: target.register_kind({back_end.kind!r})"
        )
    if back_end.kind in _BACK_ENDS and not override:
        raise TVMError(f"target kind {back_end.kind!r} has a code generator; pass override=True to replace it")
    _BACK_ENDS[back_end.kind] = back_end


def remove_back_end(kind: str) -> None:
    """Forgets the code generator of a kind of target."""
    _BACK_ENDS.pop(kind, None)


def back_ends() -> Mapping[str, BackEnd | LazyBackEnd]:
    """The kinds of target that code can be generated for, and by what."""
    return dict(_BACK_ENDS)


def identity_of(target: Target) -> str:
    """The cache key of the code generators of a target's kind and of what they depend on; "" if there is none. It imports
    none."""
    found = _BACK_ENDS.get(target.kind.name)
    if found is None:
        return ""
    if isinstance(found, BackEnd):
        return f"{found.identity} {found.toolchain(target)}"
    told = import_module(found.toolchain).toolchain(target) if found.toolchain else ""
    return f"{found.module} {told}"


def back_end_of(target: Target, what: str = "build") -> BackEnd:
    """The code generator for a target; `what` asks for it. TVMError where there is none, or where it needs what is not installed."""
    kind = target.kind.name
    found = _BACK_ENDS.get(kind)
    if found is None:
        raise TVMError(
            f"{what}: there is no code generator for target kind {kind!r}; there are ones for {', '.join(sorted(_BACK_ENDS))}"
        )
    if isinstance(found, BackEnd):
        return found
    try:
        loaded: BackEnd = import_module(found.module).BACK_END
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tilewright"):
            raise
        remedy = f'pip install "tilewright[{found.extra}]"' if found.extra else f"pip install {error.name}"
        raise TVMError(
            f"{what}: the code generator for target kind {kind!r} needs the Python package {error.name}, which is not installed: {remedy}"
        ) from error
    return loaded


def host_target(target: Target) -> Target:
    """What the functions of a target are compiled for that this process calls: itself, but for targets of other devices."""
    return back_end_of(target).host(target)


def evaluate(func: PrimFunc, arrays: Sequence[Any]) -> None:
    """Runs a function in the oracle, on NumPy arrays in place."""
    from tilewright.codegen import interp

    interp.run(func, arrays)


__all__ = [
    "AOT",
    "BLOCKS",
    "IN_PLACE",
    "IS_SCHEDULED",
    "LOOPS",
    "VECTORS",
    "BackEnd",
    "Code",
    "LazyBackEnd",
    "Loaded",
    "WholeModel",
    "back_end_of",
    "back_ends",
    "evaluate",
    "host_target",
    "identity_of",
    "register_back_end",
    "remove_back_end",
]
