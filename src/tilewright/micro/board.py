"""Descriptions of boards: their processor, their memories, and how a debugger reaches them. `boards/` has them as data, a file each."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.ir.memory_pools import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tilewright.micro.errors import BoardError
from tilewright.target import Target
from tilewright.target import micro as micro_target

VECTORS = 256
"""What code begins at a multiple of: a table of vectors has so many bytes at least, and stands at a multiple of its size."""
KINDS = ("flash", "ram")
DRIVERS = ("cmsdk", "nrf51", "ns16550", "sifive", "stm32")
"""Kinds of serial ports: the files of native/c99/serial."""
MOST_INTERRUPTS = 480
"""Interrupts of a Cortex-M (Armv8-M Architecture Reference Manual, NVIC)."""


class Region(NamedTuple):
    """A memory of a board. kind: "flash" is written by a flash tool (or by an emulator's debugger) only."""

    name: str
    start: int
    size: int
    kind: str
    executable: bool = True

    @property
    def end(self) -> int:
        return self.start + self.size


class Qemu(NamedTuple):
    """The machine of QEMU that emulates a board. system: which of QEMU's programs has it (qemu-system-arm)."""

    machine: str
    system: str = "arm"
    options: tuple[str, ...] = ()


class Serial(NamedTuple):
    """A serial port. driver: the file of native/c99/serial that knows its kind. address: that of its registers. interrupt: the number of
    that which tells of a byte that has come, at a Cortex-M; None: it is asked again and again."""

    driver: str
    address: int
    interrupt: int | None = None


class OpenOCD(NamedTuple):
    """The configuration files by which OpenOCD reaches a board."""

    config: tuple[str, ...]


class PyOCD(NamedTuple):
    """The name by which pyOCD knows a board's processor."""

    target: str


class Board:
    """A board.

    name, about: what it is. model: its microcontroller, as `tvm.target.micro` knows it. mattr: what of the CPU's features it lacks.
    clock_hz: its clock. memory: its memories. code, data: those that firmware lies in; heap: that of arrays during a session. serial: the
    port over which firmware talks; None where none is described. qemu, openocd, pyocd: what reaches it."""

    def __init__(self, name: str, described: Mapping[str, Any]) -> None:
        """Raises BoardError for descriptions that are incomplete or contradict themselves."""
        self.name = name
        take = _Table(f"the board {name}", described)
        self.about: str = take("about", str, "")
        self.model: str = take("model", str)
        self.mattr: list[str] = take("mattr", list, [])
        self.clock_hz: int = take("clock_hz", int)
        self.memory = tuple([_region(name, m) for m in take("memory", list)])
        _check_regions(name, self.memory)
        firmware = _Table(f"the board {name}, firmware", take("firmware", dict))
        self.code, self.data = self.region(firmware("code", str)), self.region(firmware("data", str))
        self.heap = self.region(take("session_heap", str, self.data.name))
        firmware.end()
        if self.data.kind != "ram":
            raise BoardError(
                f"the board {name}: data lies in {self.data.name!r}, which is flash; name a memory of the kind ram"
            )
        if self.heap.kind != "ram" or (self.heap == self.code and self.heap != self.data):
            raise BoardError(
                f"the board {name}: the arrays of a session lie in {self.heap.name!r}, which is flash, or holds code; name another RAM"
            )
        if not self.code.executable:
            raise BoardError(f"the board {name}: code lies in {self.code.name!r}, which executes none")
        if self.code.start % VECTORS:
            raise BoardError(
                f"the board {name}: code begins at {self.code.start:#x}, but must begin at a multiple of {VECTORS}, as vectors do"
            )
        self.serial = _serial(name, take)
        self.qemu, self.openocd, self.pyocd = _reached(name, take)
        take.end()

    def region(self, name: str) -> Region:
        """The memory of a name. Raises BoardError, with the names, where there is none."""
        found = next((r for r in self.memory if r.name == name), None)
        if found is None:
            raise BoardError(
                f"the board {self.name} has no memory {name!r}; it has {', '.join([r.name for r in self.memory])}"
            )
        return found

    def target(self, kind: str = "c", options: str = "") -> Target:
        """What models for the board are compiled for: C source (kind "c") or objects of LLVM ("llvm")."""
        if kind not in ("c", "llvm"):
            raise BoardError(f'code for boards is C source or objects of LLVM: kind is "c" or "llvm", not {kind!r}')
        given = [f"-mattr={','.join(self.mattr)}"] if self.mattr else []
        text = str(micro_target(self.model, [*given, *([options] if options else [])]))
        return Target(text if kind == "c" else text.replace("c ", "llvm ", 1))

    def memory_pools(self, target: Target) -> dict[str, Any]:
        """Arguments of relay.build that name the board's memories: the workspace goes into the first RAM that holds it, constants into
        the first memory that holds them, those of firmware first. target: that of the model."""

        def ordered(first: Region, kinds: Sequence[str]) -> list[Region]:
            return [first, *[r for r in self.memory if r != first and r.kind in kinds]]

        def facts(r: Region) -> PoolInfoProperties:
            return PoolInfoProperties(size_hint_bytes=r.size, clock_frequency_hz=self.clock_hz)

        return {
            "workspace_memory_pools": WorkspaceMemoryPools(
                tuple([WorkspacePoolInfo(r.name, [target], facts(r)) for r in ordered(self.data, ("ram",))])
            ),
            "constant_memory_pools": ConstantMemoryPools(
                tuple([ConstantPoolInfo(r.name, [target], [], facts(r)) for r in ordered(self.code, KINDS)])
            ),
        }

    @cached_property
    def architecture(self) -> str:
        """The family of its start code: "cortex_m" or "riscv"."""
        return "riscv" if self.target().cpu.arch == "riscv" else "cortex_m"

    @cached_property
    def triple(self) -> str:
        """The triple of its code."""
        return self.target().triple

    @cached_property
    def has_vtor(self) -> bool:
        """Whether its table of vectors can be moved; Cortex-M0 has it at address 0."""
        return self.target().mcpu not in ("cortex-m0", "cortex-m1")

    @cached_property
    def fpu(self) -> str:
        """What its unit for floats computes: "none", "single" or "double"."""
        target = self.target()
        features = target.features
        if not features & {"vfp4d16sp", "fp-armv8d16sp", "fp-armv8d16", "f", "d"}:
            return "none"
        wide = ("fp-armv8d16" in features and "-fp64" not in self.mattr) or "d" in features
        return "double" if wide else "single"

    def __repr__(self) -> str:
        return f"Board({self.name!r})"


class _Table:
    """The values of a table of a description, each taken once."""

    def __init__(self, what: str, table: Any) -> None:
        if not isinstance(table, Mapping):
            raise BoardError(f"{what}: is {table!r}, but must be a table")
        self.what, self.left = what, dict(table)

    def __call__(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.left.pop(key, default)
        if value is None:
            raise BoardError(f"{self.what}: its description lacks {key!r}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BoardError(f"{self.what}: {key!r} must be of the type {kind.__name__}, but is {value!r}")
        return value

    def end(self) -> None:
        """Raises BoardError where something is left."""
        if self.left:
            raise BoardError(f"{self.what}: nothing reads {', '.join(map(repr, self.left))}")


def _region(board: str, described: Any) -> Region:
    take = _Table(f"the board {board}, memory", described)
    name: str = take("name", str)
    take.what = f"the board {board}, memory {name!r}"
    found = Region(name, take("start", int), take("size", int), take("kind", str), take("executable", bool, True))
    take.end()
    if found.kind not in KINDS:
        raise BoardError(f"{take.what}: its kind is {found.kind!r}, but must be one of {', '.join(KINDS)}")
    if found.size <= 0 or found.start < 0 or found.end > 1 << 32:
        raise BoardError(
            f"{take.what}: {found.size:#x} bytes at {found.start:#x} are not within the 32 bits of its addresses"
        )
    if found.start % 8 or found.size % 8:
        raise BoardError(f"{take.what}: {found.size:#x} bytes at {found.start:#x}: both must be multiples of 8")
    return found


def _check_regions(board: str, memory: Sequence[Region]) -> None:
    """Raises BoardError where two memories have one name or overlap."""
    if not memory:
        raise BoardError(f"the board {board} has no memory")
    for i, one in enumerate(memory):
        for other in memory[:i]:
            if one.name == other.name:
                raise BoardError(f"the board {board}: two memories are called {one.name!r}")
            if one.start < other.end and other.start < one.end:
                raise BoardError(
                    f"the board {board}: the memories {other.name!r} ({other.start:#x} to {other.end:#x}) and {one.name!r}"
                    f" ({one.start:#x} to {one.end:#x}) overlap"
                )


def _serial(board: str, take: _Table) -> Serial | None:
    if "serial" not in take.left:
        return None
    part = _Table(f"the board {board}, serial", take("serial", dict))
    interrupt = part("interrupt", int) if "interrupt" in part.left else None
    found = Serial(part("driver", str), part("address", int), interrupt)
    part.end()
    if found.driver not in DRIVERS:
        raise BoardError(f"{part.what}: its driver is {found.driver!r}, but must be one of {', '.join(DRIVERS)}")
    if found.address % 4 or not 0 <= found.address < 1 << 32:
        raise BoardError(f"{part.what}: its address {found.address:#x} must be a multiple of 4, within 32 bits")
    if interrupt is not None and not 0 <= interrupt < MOST_INTERRUPTS:
        raise BoardError(f"{part.what}: its interrupt is {interrupt}, but must be one of 0 to {MOST_INTERRUPTS - 1}")
    return found


def _reached(board: str, take: _Table) -> tuple[Qemu | None, OpenOCD | None, PyOCD | None]:
    """What reaches a board, of its description."""
    qemu, openocd, pyocd = None, None, None
    if "qemu" in take.left:
        part = _Table(f"the board {board}, qemu", take("qemu", dict))
        qemu = Qemu(part("machine", str), part("system", str, "arm"), tuple(part("options", list, [])))
        part.end()
    if "openocd" in take.left:
        part = _Table(f"the board {board}, openocd", take("openocd", dict))
        openocd = OpenOCD(tuple(part("config", list)))
        part.end()
    if "pyocd" in take.left:
        part = _Table(f"the board {board}, pyocd", take("pyocd", dict))
        pyocd = PyOCD(part("target", str))
        part.end()
    return qemu, openocd, pyocd


@cache
def _shipped() -> dict[str, Board]:
    found = {}
    for file in sorted((files("tilewright.micro") / "boards").iterdir(), key=lambda f: f.name):
        name, dot, suffix = file.name.partition(".")
        if suffix == "toml":
            found[name] = Board(name, tomllib.loads(file.read_text(encoding="utf-8")))
    return found


def known_boards() -> list[str]:
    """The names of the boards that the package describes."""
    return [*_shipped()]


def board(which: str | os.PathLike[str] | Mapping[str, Any] | Board) -> Board:
    """A board: by its name (`known_boards`), by the path of a description (.toml), or of a description as a mapping, with its "name".

    Raises BoardError for names that are not known, with the nearest, and for descriptions that contradict themselves.
    """
    if isinstance(which, Board):
        return which
    if isinstance(which, Mapping):
        return Board(str(which.get("name", "of this description")), {k: v for k, v in which.items() if k != "name"})
    path = os.fspath(which)
    if path.endswith(".toml"):
        try:
            described = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BoardError(f"the description {path} cannot be read: {error}") from error
        return Board(Path(path).stem, described)
    if path not in _shipped():
        close = difflib.get_close_matches(path, _shipped(), n=3, cutoff=0.4)
        nearest = f"; nearest: {', '.join(close)}" if close else ""
        raise BoardError(
            f"there is no board {path!r}{nearest}. Known: {', '.join(_shipped())}; another one is described by a file (.toml)"
        )
    return _shipped()[path]


__all__ = ["VECTORS", "Board", "OpenOCD", "PyOCD", "Qemu", "Region", "Serial", "board", "known_boards"]
