"""The deepest path through the calls of a program."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from tilewright.micro.errors import MicroError
from tilewright.micro.linking.elf import ARM
from tilewright.micro.linking.link import Image, Placed
from tilewright.micro.stack import riscv, thumb
from tilewright.micro.stack.code import Code

RUNTIME = "runtime.c"
"""The object whose table of functions compiled code calls. Pointers that it calls itself are those of compiled code."""


class StackError(MicroError):
    """A program whose stack has no bound: it recurs, or has arrays whose sizes are known at run time only."""


class Depth(NamedTuple):
    """How deep the stack gets below a function: bytes, and the functions of the deepest path."""

    size: int
    path: tuple[str, ...]


class CallGraph:
    """The functions of a linked program, their frames, and who calls whom. Calls through pointers may reach every function whose address is
    taken. vector_bytes: of the vectors of a RISC-V, where it has some."""

    def __init__(self, image: Image, machine: int, vector_bytes: int = 0) -> None:
        self.image = image
        read = thumb.read if machine == ARM else partial(riscv.read, vector_bytes=vector_bytes)
        self.functions: dict[int, Placed] = {}
        self.codes: dict[int, Code] = {}
        for place in image.places:
            if place.is_function and place.kind == "text" and place.size and place.address not in self.functions:
                self.functions[place.address] = place
                data = image.content(place.address, place.size)
                gaps = [g for g in image.gaps if g[0] < place.address + place.size and g[1] > place.address]
                self.codes[place.address] = read(data, place.address, gaps)
        self.taken = [a for a in self.functions if a in image.taken]
        self._depths: dict[int, Depth] = {}

    def named(self, name: str) -> int:
        """The address of a function. Raises StackError where there is none of the name."""
        found = next((a for a, f in self.functions.items() if f.name == name), None)
        if found is None:
            raise StackError(f"the program has no function {name!r}")
        return found

    def frame(self, name: str) -> int:
        """Bytes that a function takes for itself."""
        return self.codes[self.named(name)].frame

    def callees(self, address: int) -> list[int]:
        """The functions that one may call."""
        code = self.codes[address]
        direct = [a for a in sorted(code.calls) if a in self.codes]
        if not code.indirect:
            return direct
        own = {RUNTIME} if self.functions[address].object == RUNTIME else set()
        return [*direct, *[a for a in self.taken if a not in direct and self.image.taken[a] - own]]

    def depth(self, name: str) -> Depth:
        """How deep the stack gets in a function and below it. Raises StackError for recursion, with its circle, and for frames without a
        bound."""
        return self._depth(self.named(name), [])

    def deepest(self, names: Iterable[str]) -> Depth:
        """The deepest of several functions."""
        return max([self.depth(n) for n in names], key=lambda d: d.size)

    def _depth(self, address: int, above: list[int]) -> Depth:
        if address in self._depths:
            return self._depths[address]
        name = self.functions[address].name
        if address in above:
            circle = [self.functions[a].name for a in above[above.index(address) :]]
            raise StackError(f"the stack has no bound: {' calls '.join([*circle, name])}")
        code = self.codes[address]
        if code.unknown:
            raise StackError(f"the stack has no bound: {name} has {code.unknown}")
        below = Depth(0, ())
        for callee in self.callees(address):
            found = self._depth(callee, [*above, address])
            if found.size > below.size or not below.path:
                below = found
        result = self._depths[address] = Depth(code.frame + below.size, (name, *below.path))
        return result


__all__ = ["CallGraph", "Depth", "StackError"]
