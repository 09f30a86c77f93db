"""How the memory of a board is divided during a session, and what is free in a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.micro.board import Board
from tilewright.micro.errors import BoardError, LinkError, NoRoom

SECTIONS = ("code", "stack", "args", "workspace", "data", "heap")
"""The sections of a session. code: vectors, functions and constants, of the runtime and of modules; data: their variables; args: tasks and
their arguments; workspace: temporaries of kernels; heap: arrays."""
ALIGNMENT = 64
"""Arrays begin at multiples of so many bytes, as everywhere in the runtime."""
_SHARES = {"stack": (8, 64 << 10), "args": (16, 64 << 10), "workspace": (8, 1 << 20), "data": (6, 256 << 10)}
"""By section, which part of the data memory it gets, and how many bytes at most. The heap gets the rest."""


class Section(NamedTuple):
    """A section: where it begins, and its bytes."""

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def session_layout(
    board: Board, constraints: Mapping[str, int] | None = None, writes_flash: bool = True
) -> dict[str, Section]:
    """The sections of a session on a board, by name. constraints: bytes of sections, other than the usual ones. writes_flash: whether the
    debugger writes flash as it does RAM; else code lies in RAM too.

    Raises BoardError where the memories are too small, and for sections that there are none of.
    """
    wanted = dict(constraints or {})
    unknown = next((name for name in wanted if name not in SECTIONS), None)
    if unknown is not None:
        raise BoardError(f"a session has no section {unknown!r}; it has {', '.join(SECTIONS)}")
    code = board.code
    if code.kind == "flash" and not writes_flash:
        code = next((r for r in board.memory if r.kind == "ram" and r.executable), board.data)
        if not code.executable:
            raise BoardError(
                f"the board {board.name} has no RAM that executes code, which a session over this debugger needs"
            )
    at, found = board.data.start, {}
    shared = code == board.data
    # Constants of models are with the code.
    own = wanted.get("code", code.size // 2 if shared else code.size)
    if own > code.size:
        raise BoardError(f"the section 'code' has {own} bytes, but {code.name} of {board.name} only {code.size}")
    found["code"] = Section("code", code.start, own)
    at += own if shared else 0
    room = board.data.size - (own if shared else 0)
    for name, (share, most) in _SHARES.items():
        size = -(-wanted.get(name, min(room // share, most)) // ALIGNMENT) * ALIGNMENT
        found[name] = Section(name, at, size)
        at += size
    if board.heap != board.data and at <= board.data.end:
        size = wanted.get("heap", board.heap.size)
        if size > board.heap.size:
            raise BoardError(
                f"the section 'heap' has {size} bytes, but {board.heap.name} of {board.name} only {board.heap.size}"
            )
        return found | {"heap": Section("heap", board.heap.start, size)}
    left = board.data.end - at
    size = wanted.get("heap", left)
    if size > left or left <= 0:
        taken = sum([s.size for s in found.values() if s.name != "code" or shared])
        raise BoardError(
            f"the sections of a session do not fit into {board.data.name} of {board.name}, which has {board.data.size} bytes: the others"
            f" take {taken}, and the heap needs {size if size > left else ALIGNMENT}; make them smaller (section_constraints)"
        )
    found["heap"] = Section("heap", at, size)
    return found


class PageAllocator:
    """Memory of a section, given out in pages from the first place that is large enough, and joined again when it comes back."""

    def __init__(self, section: Section, page: int = ALIGNMENT) -> None:
        self.section, self.page = section, page
        start = -(-section.start // page) * page
        self.free_runs = [(start, (section.end - start) // page * page)]
        self.taken: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        """What is left, in however many pieces."""
        return sum([size for _, size in self.free_runs])

    def allocate(self, size: int, alignment: int = 1) -> int:
        """The address of `size` bytes. Raises NoRoom where no piece is large enough."""
        pages = max(1, -(-size // self.page)) * self.page
        for k, (start, room) in enumerate(self.free_runs):
            at = -(-start // alignment) * alignment
            if at + pages <= start + room:
                rest = [(start, at - start), (at + pages, start + room - at - pages)]
                self.free_runs[k : k + 1] = [run for run in rest if run[1]]
                self.taken[at] = pages
                return at
        largest = max([room for _, room in self.free_runs], default=0)
        missing = pages - largest
        raise NoRoom(
            f"the section {self.section.name!r} has no {size} bytes left: {self.free_bytes} of {self.section.size} are free, {largest} of"
            f" them in one piece; {missing} bytes are missing",
            missing,
        )

    def free(self, address: int) -> None:
        """Gives memory back. Raises LinkError for addresses that were not given out."""
        size = self.taken.pop(address, None)
        if size is None:
            raise LinkError(f"the section {self.section.name!r} gave nothing out at {address:#x}")
        runs = sorted([*self.free_runs, (address, size)])
        joined: list[tuple[int, int]] = []
        for start, room in runs:
            if joined and sum(joined[-1]) == start:
                joined[-1] = (joined[-1][0], joined[-1][1] + room)
            else:
                joined.append((start, room))
        self.free_runs = joined


__all__ = ["ALIGNMENT", "SECTIONS", "PageAllocator", "Section", "session_layout"]
