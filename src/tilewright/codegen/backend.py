"""Interface between the compiler and code generators, and the table of the registered ones.

The driver, the graph compiler, its cache and its executors use the `BackEnd` that is registered for the target's kind. Code has two forms.
`Code` is text, which people can read and the cache can compare. `compile` turns it into an object: bytes that the cache keeps, that `load`
brings into this process, and that an exported library holds.
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
    from tilewright.te import Schedule, Tensor
    from tilewright.tir import PrimFunc

AOT = "aot"
"""Value of the attribute "calling_conv" of kernels: they are exported as `int32_t name(void** args)` and return 0 or an error code."""

IS_SCHEDULED = "tir.is_scheduled"
"""Attribute of functions that are scheduled already."""


BLOCKS, LOOPS, VECTORS = "blocks", "loops", "vectors"
"""Stages to which programs are lowered for a back end. BLOCKS: programs as schedules leave them, with blocks and with buffers of several
dimensions. LOOPS: loops over flat buffers; the back end carries out or ignores the marks parallel, vectorized and unrolled. VECTORS: loops
and explicit vectors."""


CPU_RULES, GPU_RULES, NO_RULES = "cpu", "gpu", ""
"""Families of schedule rules: vectors and tiles for the caches of a CPU; threads of a GPU; none."""


class Code(NamedTuple):
    """Functions as text in the language of a back end. effort: the level of optimisation, on the scale of the back end."""

    text: str
    effort: int = 1


class WholeModel(NamedTuple):
    """A model, for a back end that writes whole models as source.

    name: the prefix of its symbols. kernels: a lowered module for each kernel, by symbol. entry: the module of the function `run`, which
    declares the kernels that `run` calls; the arguments of `run` are the addresses of inputs, outputs, constants and workspace. facts: the
    metadata. registered: symbols that are registered with the runtime when the code is loaded. unpacked: whether the code is for programs
    without the runtime, whose functions take their arguments directly. run is "" for kernels that the graph
    executor calls. prefix: before the names of all symbols, if they are packed.
    """

    name: str
    kernels: Mapping[str, IRModule]
    entry: IRModule
    run: str
    facts: Mapping[str, Any]
    constants: Any
    registered: Sequence[str]
    unpacked: bool
    prefix: str = ""


class Loaded(Protocol):
    """Objects in this process: addresses by symbol. The code stays in memory as long as this object."""

    symbols: dict[str, int]


class BackEnd(ABC):
    """A code generator for one kind of target. It has no state, and threads may share it."""

    kind: ClassVar[str]
    """The kind of target, such as "llvm"."""
    forms: ClassVar[tuple[str, ...]]
    """Forms in which `text` gives code; the first one is the language of `Code.text`."""
    version: ClassVar[str] = ""
    """Version of the generated code, for back ends outside this package: the cache keeps code of each version apart."""
    takes: ClassVar[str] = VECTORS
    """The stage to which programs are lowered before they are emitted: BLOCKS, LOOPS or VECTORS."""
    rules: ClassVar[str] = CPU_RULES
    """The family of schedule rules that kernels of models get (`scheduling`). Layouts of models depend on it, too. NO_RULES: operators are
    only fused, and kernels are as the operators define them."""
    packed: ClassVar[bool] = True
    """Whether `build` takes packed functions, which the driver's pipeline for hosts makes. Otherwise it takes the lowered functions."""
    linkable: ClassVar[bool] = True
    """Whether objects are machine code for linkers. A library holds other objects as data (`held`), and this back end loads them."""

    writes_models: ClassVar[bool] = False
    """Whether `write` writes whole models as source."""

    launches: ClassVar[bool] = False
    """Whether programs are split into kernels for a device and functions of the host that launch them (codegen.device)."""

    @property
    def identity(self) -> str:
        """Key that distinguishes back ends of one kind in the cache."""
        return f"{type(self).__module__}.{type(self).__qualname__} {self.version} {self.rules}"

    def toolchain(self, target: Target) -> str:
        """Identity of a tool outside this package on which objects depend, such as the compiler of the machine; part of the cache key."""
        return ""

    def passes(self, target: Target) -> Sequence[Pass]:
        """Passes to run on programs before they are emitted, besides the lowering for `takes`."""
        return ()

    def host(self, target: Target) -> Target:
        """The target of the functions that this process calls. It differs from `target` for kinds of devices."""
        return target

    def schedule(self, outputs: Sequence[Tensor], target: Target) -> Schedule | None:
        """The schedule of a kernel of a model that computes these tensors, for back ends that schedule kernels themselves. None: the
        `rules` do, or kernels stay as operators define them."""
        return None

    def launched(self, objects: Sequence[bytes], target: Target) -> tuple[list[bytes], list[Any]]:
        """(objects for the linker, modules that the library imports), made of the objects of kernels."""
        return list(objects), []

    @abstractmethod
    def build(self, mod: IRModule, target: Target) -> Any:
        """A runtime.Module of the functions of `mod`: the result of tvm.build."""

    @abstractmethod
    def emit(self, mod: IRModule, target: Target) -> Code:
        """The code of a kernel: functions with the calling convention AOT."""

    def lined(self, mod: IRModule, target: Target, file: str) -> tuple[str, bytes] | None:
        """(the functions of a kernel as text, the object of it with the lines of this text by address), whose code is that of `compile`;
        None for back ends whose objects have no lines. file: the name of the text."""
        return None

    @abstractmethod
    def emit_entry(self, mod: IRModule, names: Sequence[str], target: Target) -> Code:
        """The code of the named functions, and of the variables that the runtime fills in when it loads the code
        (tilewright.runtime.linking.symbols). Other functions of the module are only declared. Without names: the variables alone."""

    @abstractmethod
    def emit_registration(self, symbols: Sequence[str], target: Target) -> Code:
        """The code of a system library: loaded, it registers `symbols` with the runtime."""

    @abstractmethod
    def compile(self, code: Code, target: Target) -> bytes:
        """The object of code."""

    def object_kind(self, target: Target) -> ObjectKind:
        """The file format of the objects for a target, without making one. Raises TVMError if the back end writes none for the target."""
        return ObjectKind.host() or ObjectKind(ELF)

    @abstractmethod
    def text(self, code: Code, target: Target, form: str) -> str:
        """Code in one of the `forms`."""

    @abstractmethod
    def load(self, objects: Iterable[bytes], exports: Iterable[str]) -> Loaded:
        """Brings objects into this process. Raises TVMError if they cannot be linked together, or cannot run here."""

    def write(self, model: WholeModel, target: Target, archive: bool) -> dict[str, Code]:
        """A whole model as source: files by suffix, or by name for an archive, whose files for `compile` are below src/."""
        raise TVMError(f"models for target kind {self.kind!r} are not written as source")

    def held(self, objects: Sequence[bytes], exports: Sequence[str]) -> bytes:
        """The data by which a library holds objects that are not for linkers. The first line names a Python module; its function
        `load_held` makes a runtime.Module of the rest."""
        raise TVMError(f"code for target kind {self.kind!r} is linked, not held")

    def companions(self, target: Target) -> list[bytes]:
        """Objects that an exported library for the target holds in addition to its kernels."""
        return []


class LazyBackEnd(NamedTuple):
    """A back end that is imported at its first use: `BACK_END` of `module`. extra: the extra of this package that installs the packages it
    needs. toolchain: the module whose function `toolchain` answers `BackEnd.toolchain` for the cache without importing the back end."""

    module: str
    extra: str = ""
    toolchain: str = ""


_BACK_ENDS: dict[str, BackEnd | LazyBackEnd] = {
    "llvm": LazyBackEnd("tilewright.codegen.llvm.backend", toolchain="tilewright.codegen.llvm_version"),
    "c": LazyBackEnd("tilewright.codegen.source.c.backend", toolchain="tilewright.codegen.source.c.toolchain"),
    "interp": LazyBackEnd("tilewright.codegen.interp.backend"),
    "cuda": LazyBackEnd("tilewright.codegen.source.cuda.backend", toolchain="tilewright.codegen.source.cuda.backend"),
    "nvptx": LazyBackEnd("tilewright.codegen.llvm.nvptx", toolchain="tilewright.codegen.llvm_version"),
    "opencl": LazyBackEnd("tilewright.codegen.source.opencl.backend"),
    "metal": LazyBackEnd("tilewright.codegen.source.metal.backend"),
    "ext_dev": LazyBackEnd("tilewright.vta.compiler.back_end", toolchain="tilewright.vta.compiler.back_end"),
}
"""Kind of target -> its code generator."""


def register_back_end(back_end: BackEnd, override: bool = False) -> None:
    """Registers a code generator for its kind of target. Raises TVMError if the kind is unknown, or if it has a code generator and
    `override` is false."""
    if kind_named(back_end.kind) is None:
        raise TVMError(
            f"there is no target kind {back_end.kind!r}; make one first: target.register_kind({back_end.kind!r})"
        )
    if back_end.kind in _BACK_ENDS and not override:
        raise TVMError(f"target kind {back_end.kind!r} has a code generator; pass override=True to replace it")
    _BACK_ENDS[back_end.kind] = back_end


def remove_back_end(kind: str) -> None:
    """Removes the code generator of a kind of target."""
    _BACK_ENDS.pop(kind, None)


def back_ends() -> Mapping[str, BackEnd | LazyBackEnd]:
    """The code generators by kind of target."""
    return dict(_BACK_ENDS)


def identity_of(target: Target) -> str:
    """The cache key of the code generator for a target's kind and of its toolchain; "" for kinds without one. Does not import the code
    generator."""
    found = _BACK_ENDS.get(target.kind.name)
    if found is None:
        return ""
    if isinstance(found, BackEnd):
        return f"{found.identity} {found.toolchain(target)}"
    told = import_module(found.toolchain).toolchain(target) if found.toolchain else ""
    return f"{found.module} {told}"


def back_end_of(target: Target, what: str = "build") -> BackEnd:
    """The code generator for a target. Raises TVMError, which begins with `what` (the caller's name), if the kind has none, or if a Python
    package that it needs is not installed."""
    kind = target.kind.name
    found = _BACK_ENDS.get(kind)
    if found is None:
        known = ", ".join(sorted(_BACK_ENDS))
        raise TVMError(f"{what}: there is no code generator for target kind {kind!r}; there are ones for {known}")
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
    """The target of the functions that this process calls: `target` itself for CPUs, its host for other devices."""
    return back_end_of(target).host(target)


def evaluate(func: PrimFunc, arrays: Sequence[Any]) -> None:
    """Runs a function in the interpreter, on NumPy arrays in place."""
    from tilewright.codegen import interp

    interp.run(func, arrays)


__all__ = [
    "AOT",
    "BLOCKS",
    "CPU_RULES",
    "GPU_RULES",
    "IS_SCHEDULED",
    "LOOPS",
    "NO_RULES",
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
