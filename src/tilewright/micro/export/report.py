"""What firmware takes of a board, by operator and by tensor, and what to change where it does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.micro.board import Board, Region
from tilewright.micro.errors import BoardError, MicroError
from tilewright.micro.export.firmware import Firmware
from tilewright.micro.export.sources import ModelFiles
from tilewright.micro.stack.depth import CallGraph, StackError

FRAME, FLOAT_FRAME = 32 + 4, 104 + 4
"""Bytes that an interrupt of a Cortex-M puts on the stack, with what aligns it: registers, and those of floats too."""
POOLS = ("workspace", "constants")
"""The memories of a model that can be placed elsewhere."""


class DoesNotFit(MicroError):
    """Firmware that is larger than a board. report: what it takes."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.text())
        self.report = report


class Operator(NamedTuple):
    """An operator: the bytes of its code and of its own constants, of the stack in it and below it, and of the tensors of the workspace
    that live while it runs."""

    name: str
    code: int
    stack: int
    live: int


class TensorPlace(NamedTuple):
    """A tensor: its memory, its place there, its bytes. first, last: numbers of the operators between which it lives; None: always."""

    name: str
    memory: str
    offset: int
    size: int
    first: int | None = None
    last: int | None = None


class Usage(NamedTuple):
    """What is used of a memory of a board: bytes, by what they are for."""

    region: Region
    parts: dict[str, int]

    @property
    def used(self) -> int:
        return sum(self.parts.values())

    @property
    def over(self) -> int:
        """Bytes that are missing; 0 where it fits."""
        return max(0, self.used - self.region.size)


class Report:
    """What firmware takes. memories: use of the board's memories; operators, tensors: what takes it; stack, path: the deepest path of
    calls; workspace: the bytes of the arena; peak: the operator at which most of it is in use, and its tensors."""

    def __init__(
        self, board: Board, firmware: Firmware, files: ModelFiles, facts: Mapping[str, Any], pools: Mapping[str, str]
    ) -> None:
        self.board, self.pools, self.files = board, dict(pools), files
        image = firmware.image
        cpu = board.target().cpu
        graph = CallGraph(image, firmware.machine, cpu.vector_bits // 8 if cpu.rvv else 0)
        entry = "tw_begin"
        try:
            deepest = graph.depth(entry)
            interrupts = graph.depth("tw_tick").size if board.architecture == "cortex_m" else 0
        except StackError as error:
            raise StackError(f"{board.name}: {error}; such code is no firmware") from None
        frame = 0 if board.architecture != "cortex_m" else FRAME if board.fpu == "none" else FLOAT_FRAME
        self.path = deepest.path
        self.interrupts = interrupts + frame
        self.stack = -(-(deepest.size + self.interrupts) // 16) * 16
        by_object: dict[str, int] = {}
        for p in image.places:
            if p.kind in ("text", "rodata"):
                by_object[p.object] = by_object.get(p.object, 0) + p.size
        self.tensors = model_tensors(facts)
        self.workspace = int(facts["workspace_bytes"])
        self.kernels = [str(k["name"]) for k in facts["kernels"]]
        self.operators = []
        for name, symbol in files.kernels.items():
            parts = {symbol, f"{symbol}_impl", f"{symbol}.impl"}
            place = next((p for p in image.places if p.name in parts and p.kind == "text"), None)
            if place is None:
                continue
            alone = f"{symbol}.c" == place.object
            # A kernel may be called several times.
            live = max([self.in_use(k) for k, kernel in enumerate(self.kernels) if kernel == name])
            code = by_object[place.object] if alone else sum([p.size for p in image.places if p.name in parts])
            self.operators.append(Operator(name, code, graph.depth(place.name).size, live))
        self.memories = self._memories(image.sizes, {p.name: p for p in image.places})

    def _memories(self, sizes: Mapping[str, int], places: Mapping[str, Any]) -> list[Usage]:
        used: dict[str, dict[str, int]] = {r.name: {} for r in self.board.memory}
        code, data = used[self.board.code.name], used[self.board.data.name]
        moved = {"workspace": self.files.workspace, "constants": self.files.constants}
        taken = {kind: sizes.get(kind, 0) for kind in ("vectors", "text", "rodata", "data", "bss")}
        for pool in POOLS:
            symbol = moved[pool]
            size = places[symbol].size if symbol and symbol in places else 0
            if not size:
                continue
            kind = "bss" if pool == "workspace" else "rodata"
            taken[kind] -= size
            home = self.board.data.name if pool == "workspace" else self.board.code.name
            used[self.pools.get(pool, home)][pool] = size
        for kind in ("vectors", "text", "rodata"):
            code[kind] = taken[kind]
        data["data"], data["bss"], data["stack"] = taken["data"], taken["bss"], self.stack
        if self.board.code != self.board.data and taken["data"]:
            code["data, to be copied"] = taken["data"]
        found = [Usage(r, {k: v for k, v in used[r.name].items() if v}) for r in self.board.memory]
        return [u for u in found if u.parts]

    @property
    def flash(self) -> int:
        """Bytes of the memory that code lies in."""
        return next(u.used for u in self.memories if u.region == self.board.code)

    @property
    def ram(self) -> int:
        """Bytes of the memory that data lie in, stack included."""
        return next(u.used for u in self.memories if u.region == self.board.data)

    @property
    def fits(self) -> bool:
        """Whether every memory is large enough."""
        return not any([u.over for u in self.memories])

    def live(self, operator: int) -> list[TensorPlace]:
        """The tensors of the workspace that live while an operator runs, the largest first."""
        alive = [
            t for t in self.tensors if t.first is not None and t.last is not None and t.first <= operator <= t.last
        ]
        return sorted(alive, key=lambda t: -t.size)

    def in_use(self, operator: int) -> int:
        """Bytes of the workspace that hold something while an operator runs; what shares a place counts once."""
        places = sorted([(t.offset, t.offset + t.size) for t in self.live(operator)])
        total, end = 0, 0
        for start, stop in places:
            total += max(0, stop - max(start, end))
            end = max(end, stop)
        return total

    @property
    def peak(self) -> int:
        """The number of the operator during which most of the workspace is in use."""
        return max(range(len(self.kernels)), key=self.in_use, default=0)

    def advice(self) -> list[str]:
        """What to change, for each memory that is too small."""
        return [line for usage in self.memories if usage.over for line in self._advice_for(usage)]

    def _advice_for(self, usage: Usage) -> list[str]:
        region, lines = usage.region, []
        lines.append(f"{region.name}: {usage.over} bytes too many ({usage.used} of {region.size})")
        largest = sorted(usage.parts.items(), key=lambda part: -part[1])
        for pool, size in largest:
            if pool not in POOLS:
                continue
            roomy = [
                r for r in self.board.memory
                if r != region and r.size - self._used(r) >= size and (pool == "constants" or r.kind == "ram")
            ]  # fmt: skip
            if roomy:
                lines.append(
                    f"  place the {pool} ({size} bytes) in {roomy[0].name}: pools={{{pool!r}: {roomy[0].name!r}}}"
                )
        if "workspace" in usage.parts and self.kernels:
            listed = listing(self.live(self.peak)[:4])
            lines.append(
                f"  the workspace is largest at {self.kernels[self.peak]}: {listed}; smaller inputs, or int8, make it smaller"
            )
        if "constants" in usage.parts:
            listed = listing(largest_constants(self.tensors))
            lines.append(
                f"  the largest constants are {listed}; in int8 (relay.quantize) those of float32 take a quarter"
            )
        if usage.parts.get("text", 0) > region.size // 4:
            biggest = max(self.operators, key=lambda o: o.code, default=None)
            if biggest is not None:
                lines.append(
                    f"  the largest code is that of {biggest.name} ({biggest.code}); optimise for size: level='-Os'"
                )
        if usage.parts.get("stack", 0) > region.size // 4:
            lines.append(f"  the stack is deepest in {' > '.join(self.path)}")
        return lines

    def _used(self, region: Region) -> int:
        return next((u.used for u in self.memories if u.region == region), 0)

    def require(self) -> None:
        """Raises DoesNotFit, with the report, where a memory is too small."""
        if not self.fits:
            raise DoesNotFit(self)

    def text(self) -> str:
        """The report for people."""
        lines = [f"{self.board.name}: {self.board.about}", ""]
        lines.append(f"{'memory':<12}{'used':>10}{'bytes':>10}{'':>8}  by")
        for u in self.memories:
            share = f"{100 * u.used / u.region.size:.1f} %"
            parts = ", ".join([f"{k} {v}" for k, v in u.parts.items()])
            lines.append(f"{u.region.name:<12}{u.used:>10}{u.region.size:>10}{share:>8}  {parts}")
        lines += [
            "",
            f"stack {self.stack} bytes: {' > '.join(self.path)}; {self.interrupts} of them for interrupts",
            "",
        ]
        lines.append(f"{'operator':<40}{'code':>8}{'stack':>8}{'live':>8}")
        lines += [f"{o.name:<40}{o.code:>8}{o.stack:>8}{o.live:>8}" for o in self.operators]
        lines += ["", f"{'tensor':<28}{'memory':<12}{'offset':>8}{'bytes':>8}  lives"]
        for t in self.tensors:
            lives = "always" if t.first is None else f"{t.first} to {t.last}"
            lines.append(f"{t.name:<28}{t.memory:<12}{t.offset:>8}{t.size:>8}  {lives}")
        lines += ["", *self._map()]
        if not self.fits:
            lines += ["", "It does not fit:", *self.advice()]
        return "\n".join(lines).rstrip() + "\n"

    def _map(self) -> list[str]:
        """The workspace over time: a row for each tensor, a column for each operator; tensors whose places overlap live at different
        times."""
        shown = [t for t in self.tensors if t.memory == "workspace"]
        if not shown:
            return []
        lines = [f"workspace of {self.workspace} bytes, by operator ({len(self.kernels)}):"]
        for t in shown:
            assert t.first is not None and t.last is not None
            row = "".join(["#" if t.first <= k <= t.last else "." for k in range(len(self.kernels))])
            over = [
                o.name for o in shown if o is not t and o.offset < t.offset + t.size and t.offset < o.offset + o.size
            ]
            shares = f"  shares with {', '.join(over)}" if over else ""
            lines.append(f"  {t.offset:>8} {t.offset + t.size:>8}  {row}  {t.name}{shares}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {
            "board": self.board.name, "fits": self.fits, "flash": self.flash, "ram": self.ram, "stack": self.stack, "path": list(self.path),
            "memories": {u.region.name: {"used": u.used, "size": u.region.size, "parts": u.parts} for u in self.memories},
            "operators": [o._asdict() for o in self.operators], "tensors": [t._asdict() for t in self.tensors], "advice": self.advice(),
        }  # fmt: skip


def model_tensors(facts: Mapping[str, Any]) -> list[TensorPlace]:
    """The tensors of a model: constants, and values of the workspace with the operators between which they live."""
    sizes: dict[int, int] = {}
    for k in facts["kernels"]:
        given = zip(k["args"], k["arg_bytes"], strict=True)
        sizes |= {int(at): int(size) for (place, at), size in given if place == "constant"}
    found = [
        TensorPlace(str(p["name"]), "constants", int(p["offset"]), sizes.get(int(p["offset"]), 0))
        for p in facts.get("params", ())
    ]
    values: list[TensorPlace] = []
    current: dict[tuple[int, int], int] = {}
    for number, k in enumerate(facts["kernels"]):
        places = [
            (int(at), int(size))
            for (place, at), size in zip(k["args"], k["arg_bytes"], strict=True)
            if place == "workspace"
        ]
        for key in dict.fromkeys(places):
            last = places[-1] == key and key not in places[:-1] and k["args"][-1][0] == "workspace"
            if last or key not in current:
                # A kernel's last argument is what it computes: a new value, which may take the place of one that is dead.
                current[key] = len(values)
                values.append(TensorPlace(f"{k['name']}", "workspace", *key, number, number))
            else:
                values[current[key]] = values[current[key]]._replace(last=number)
    return [*found, *values]


def largest_constants(tensors: Sequence[TensorPlace]) -> list[TensorPlace]:
    """The three largest constants of a model."""
    return sorted([t for t in tensors if t.memory == "constants"], key=lambda t: -t.size)[:3]


def listing(tensors: Sequence[TensorPlace]) -> str:
    """Tensors with their bytes, as messages have them."""
    return ", ".join([f"{t.name} ({t.size})" for t in tensors])


def check_pools(board: Board, pools: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """The memories of pools by name. Raises BoardError for pools and memories that there are none of, and for a workspace in flash."""
    given = dict(pools) if isinstance(pools, Mapping) else dict.fromkeys(pools, board.data.name)
    for pool, memory in given.items():
        if pool not in POOLS:
            raise BoardError(f"a model has no pool {pool!r}; it has {', '.join(POOLS)}")
        if board.region(memory).kind == "flash" and pool == "workspace":
            raise BoardError(f"the workspace is written, but {memory} of {board.name} is flash")
    return given


__all__ = [
    "DoesNotFit", "Operator", "Report", "TensorPlace", "Usage", "check_pools", "largest_constants", "listing", "model_tensors",
]  # fmt: skip
