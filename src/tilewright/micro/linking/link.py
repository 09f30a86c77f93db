"""The linker of sessions: what is needed of some objects is placed into a device's memory and relocated there."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from tilewright.micro.errors import LinkError
from tilewright.micro.linking import arm, riscv
from tilewright.micro.linking.elf import ARM, KINDS, ElfObject, Relocation, Section, Symbol
from tilewright.micro.linking.lines import line_at, line_rows
from tilewright.support.errors import TVMError

Place = Callable[[str, int, int], int]
"""Takes a kind of sections (elf.KINDS), bytes and an alignment; returns an address in the device's memory."""


Libraries = Sequence[ElfObject] | Callable[[], Sequence[ElfObject]]
"""Objects, or what makes them."""


class Placed(NamedTuple):
    """A function or a variable with its place. object: the name of the object that it comes from."""

    name: str
    address: int
    size: int
    kind: str
    object: str
    is_function: bool


class Image:
    """What is to be written into a device's memory: `segments` by address. symbols: global names. places: all named things, local ones
    too, by address. sizes: bytes by kind of sections."""

    def __init__(self) -> None:
        self.segments: dict[int, bytes] = {}
        self.symbols: dict[str, int] = {}
        self.places: list[Placed] = []
        self.sizes: dict[str, int] = {}
        self.sections: list[tuple[str, str, int]] = []
        """(object, section, address) of all sections that were kept."""
        self.sources: dict[str, str] = {}
        """Texts of C by function, where they are known."""
        self.lined: Callable[[str], tuple[str, bytes] | None] | None = None
        """Makes the program of a function as text, and its object again with the lines of this text."""
        self.debug: dict[str, bytes] = {}
        """By object, its section of lines of source, with addresses of the device."""
        self.gaps: list[tuple[int, int]] = []
        """Data within code (literals): from where, and to where."""
        self.words: dict[str, int] = {}
        """Addresses of the words of the global offset table."""
        self.owned: list[tuple[Any, int]] = []
        """Where the loader keeps what it has to give back."""
        self.taken: dict[int, set[str]] = {}
        """Addresses that code or data name other than by calls, so that pointers may lead there; and the objects that do so. Vectors do not
        count."""

    def line_at(self, address: int) -> int | None:
        """The line of source of an address; None where its object has no lines. Definitions by macros are passed over."""
        function = self.function_at(address)
        data = self.debug.get(function.object) if function is not None else None
        if function is None or not data:
            return None
        text = self.sources.get(function.name, "").splitlines()
        macros = {k for k, line in enumerate(text, 1) if line.startswith("TW_") and "{" not in line}
        return line_at(line_rows(data), address, macros)

    def compiled_line(self, address: int, outside: Mapping[str, int]) -> str:
        """The line of TensorIR of an address, with its number, for code whose object had no lines: it is compiled again. outside: as of
        `link`. "" where that is not known, or the program cannot be compiled now: it is for an error that is told anyway."""
        function = self.function_at(address)
        try:
            made = self.lined(function.name) if function is not None and self.lined is not None else None
            return "" if function is None or made is None else self._line_in(*made, function, address, outside)
        except TVMError:
            return ""

    def _line_in(self, text: str, data: bytes, function: Placed, address: int, outside: Mapping[str, int]) -> str:
        """The line of an address of a function, by its object with lines."""
        again, at = ElfObject(function.object, data), function.address

        def place(kind: str, size: int, alignment: int) -> int:
            nonlocal at
            start = -(-at // alignment) * alignment
            at = start + size
            return start

        roots = [s.name for s in again.symbols if s.is_global and s.is_function and s.section >= 0]
        image = link([again], roots, place, {**outside, **self.symbols})
        same = next((p for p in image.places if p.name == function.name and p.size == function.size), None)
        line = image.line_at(same.address + address - function.address) if same is not None else None
        return f"line {line} of the TensorIR: {text.splitlines()[line - 1].strip()}" if line else ""

    def content(self, address: int, size: int) -> bytes:
        """Bytes of the image. Raises LinkError for addresses outside of it."""
        start = max([a for a in self.segments if a <= address], default=None)
        if start is None or address + size > start + len(self.segments[start]):
            raise LinkError(f"the image has no {size} bytes at {address:#x}")
        return self.segments[start][address - start : address - start + size]

    def function_at(self, address: int) -> Placed | None:
        """The function that holds an address."""
        found = [p for p in self.places if p.is_function and p.address <= address < p.address + max(p.size, 2)]
        return max(found, key=lambda p: p.address, default=None)


class _Linker:
    def __init__(self, objects: Sequence[ElfObject], libraries: Libraries, outside: Mapping[str, int]) -> None:
        self.objects: list[ElfObject] = []
        self.numbers: dict[int, int] = {}
        self.outside = dict(outside)
        self.machine = objects[0].machine
        self.rules: ModuleType = arm if self.machine == ARM else riscv
        self.defined: dict[str, tuple[ElfObject, Symbol]] = {}
        self._add(objects, True)
        self.libraries = libraries
        self.kept: dict[tuple[int, int], Section] = {}
        self.addresses: dict[tuple[int, int], int] = {}
        self.words: dict[str, int] = {}
        """The words of the global offset table, by symbol, and their addresses."""

    def _add(self, objects: Sequence[ElfObject], first: bool) -> None:
        for o in objects:
            if o.machine != self.machine:
                raise LinkError(f"{o.name} and {self.objects[0].name} are for different machines")
            self.numbers[id(o)] = len(self.objects)
            self.objects.append(o)
            self._define(o, first)

    def _define(self, o: ElfObject, first: bool) -> None:
        for s in o.symbols:
            if not s.is_global or s.section == -1 or not s.name:
                continue
            before = self.defined.get(s.name)
            if before is None or first and before[1].is_weak and not s.is_weak:
                self.defined[s.name] = (o, s)
            elif first and not before[1].is_weak and not s.is_weak and before[0] is not o:
                raise LinkError(f"the symbol {s.name!r} is defined by {before[0].name} and by {o.name}")

    def definition(self, o: ElfObject, s: Symbol) -> tuple[ElfObject, Symbol] | int | None:
        """Where a symbol of an object is: in an object, at an address outside of all, or nowhere."""
        if not s.is_global:
            return (o, s)
        found = self.defined.get(s.name)
        if found is not None and not (found[1].is_weak and s.name in self.outside):
            return found
        if s.name in self.outside:
            return self.outside[s.name]
        return self.definition(o, s) if s.name and not s.is_weak and self._loaded() else None

    def _loaded(self) -> bool:
        """Whether there were libraries that were not looked into. Only now: what compilers call by themselves takes seconds to compile, and
        most code needs none of it."""
        libraries, self.libraries = self.libraries, ()
        found = libraries() if callable(libraries) else libraries
        self._add(found, False)
        return bool(found)

    def keep(self, roots: Iterable[str]) -> None:
        """Keeps the sections that the roots need, and those that these need."""
        waiting: list[tuple[ElfObject, int]] = []
        for name in roots:
            found = self.defined.get(name)
            if found is None and self._loaded():
                found = self.defined.get(name)
            if found is None:
                close = difflib.get_close_matches(name, self.defined, n=3)
                raise LinkError(f"no object defines {name!r}{f'; nearest: {chr(44).join(close)}' if close else ''}")
            waiting.append((found[0], found[1].section))
        missing: dict[str, str] = {}
        while waiting:
            o, number = waiting.pop()
            key = (self.numbers[id(o)], number)
            if number < 0 or key in self.kept:
                continue
            section = o.sections[number]
            if not section.kind:
                continue
            self.kept[key] = section
            for r in section.relocations:
                s = o.symbols[r.symbol]
                place = self.definition(o, s)
                if isinstance(place, tuple):
                    waiting.append((place[0], place[1].section))
                elif place is None and not s.is_weak and s.name:
                    missing.setdefault(s.name, f"{o.name}{section.name}")
                if r.kind in self.rules.GOT:
                    self.words.setdefault(self._word(o, s), 0)
        if missing:
            listed = ", ".join([f"{name!r} (needed by {where})" for name, where in sorted(missing.items())])
            raise LinkError(f"nothing defines {listed}: neither the module nor the device's runtime")
        self.libraries = ()

    def _word(self, o: ElfObject, s: Symbol) -> str:
        return s.name if s.is_global else f"{self.numbers[id(o)]}:{s.section}:{s.value}"

    def place(self, place: Place, image: Image) -> dict[tuple[int, int], bytearray]:
        """Places all kept sections, those of a kind together. Returns their bytes."""
        contents = {}
        for kind in KINDS:
            chosen = [(key, s) for key, s in sorted(self.kept.items()) if s.kind == kind]
            if kind in ("rodata", "bss"):
                chosen.sort(key=lambda c: -c[1].alignment)  # as linker scripts do, which leaves no gaps
            words = list(self.words) if kind == "rodata" else []
            if not chosen and not words:
                continue
            alignment = max([s.alignment for _, s in chosen], default=4)
            at, offsets = 4 * len(words), {}
            for key, s in chosen:
                at = -(-at // s.alignment) * s.alignment
                offsets[key] = at
                at += s.size
            start = place(kind, at, max(alignment, 4))
            image.sizes[kind] = at
            for key, s in chosen:
                self.addresses[key] = start + offsets[key]
                contents[key] = bytearray(s.data if s.kind != "bss" else b"")
            for k, name in enumerate(words):
                self.words[name] = start + 4 * k
        return contents

    def address(self, o: ElfObject, s: Symbol) -> tuple[int, bool]:
        """(address, whether it is a function of Thumb code) of a symbol."""
        found = self.definition(o, s)
        if found is None:
            return 0, False
        if isinstance(found, int):
            thumb = self.machine == ARM and bool(found & 1)
            return (found & ~1 if thumb else found), thumb
        where, symbol = found
        value = symbol.value
        if symbol.section == -2:
            return value, False
        thumb = self.machine == ARM and symbol.is_function and bool(value & 1)
        base = self.addresses.get((self.numbers[id(where)], symbol.section), 0)
        return base + (value & ~1 if thumb else value), thumb

    def relocate(self, contents: Mapping[tuple[int, int], bytearray], image: Image) -> None:
        for (number, index), code in contents.items():
            o, section = self.objects[number], self.kept[(number, index)]
            base = self.addresses[(number, index)]
            distances = self._distances(o, section, base) if self.machine != ARM else {}
            for r in section.relocations:
                if r.kind not in self.rules.NOTHING:
                    self._one(o, section, code, base, r, distances, image)

    def lines(self, image: Image) -> None:
        """Relocates the lines of source of all objects of which something is kept."""
        for number in {n for n, _ in self.kept}:
            o = self.objects[number]
            for section in o.sections:
                if section.kind == "debug":
                    data = bytearray(section.data)
                    for r in section.relocations:
                        if r.kind not in self.rules.NOTHING:
                            self._one(o, section, data, 0, r, {}, image)
                    image.debug[o.name] = bytes(data)

    def _distances(self, o: ElfObject, section: Section, base: int) -> dict[int, int]:
        """By offset of an upper half of RISC-V, the distance that its lower halves complete."""
        found = {}
        for r in section.relocations:
            if r.kind in riscv.HIGH:
                s = o.symbols[r.symbol]
                target = self.words[self._word(o, s)] if r.kind in riscv.GOT else self.address(o, s)[0]
                found[r.offset] = target + (r.addend or 0) - base - r.offset
        return found

    def _one(
        self, o: ElfObject, section: Section, code: bytearray, base: int, r: Relocation, distances: Mapping[int, int],
        image: Image,
    ) -> None:  # fmt: skip
        s, place = o.symbols[r.symbol], base + r.offset
        target, thumb = self.address(o, s)

        def reach(distance: int, bits: int) -> None:
            if not -(1 << bits - 1) <= distance < 1 << bits - 1:
                name = self.rules.NAMES.get(r.kind, f"relocation {r.kind}")
                raise LinkError(
                    f"{o.name}{section.name}: {name} at {place:#x} does not reach {s.name!r} at {target:#x}: {distance} bytes are more"
                    f" than {bits} bits say; place both nearer"
                )

        if r.kind not in self.rules.BRANCHES and section.kind not in ("vectors", "debug"):
            # Behind a section's name stands how far into it: the beginning of a function, or one of a table's places in it.
            behind = r.addend or 0
            if self.machine == ARM and r.kind in arm.WORDS:
                behind = int.from_bytes(code[r.offset : r.offset + 4], "little") & ~1
            image.taken.setdefault(target + behind & 0xFFFFFFFF, set()).add(o.name)
        if r.kind in self.rules.GOT:
            target = self.words[self._word(o, s)]
        if self.machine == ARM:
            known = arm.apply(code, r.offset, place, r.kind, target, thumb, reach)
        else:
            if r.kind in riscv.LOW:
                value = distances.get(s.value)
                if value is None:
                    raise LinkError(
                        f"{o.name}{section.name}: the lower half of an address at {place:#x} has no upper half"
                    )
            else:
                value = target + (r.addend or 0)
            known = riscv.apply(code, r.offset, place, r.kind, value, reach)
        if not known:
            raise LinkError(
                f"{o.name}{section.name}: relocation {r.kind} at {place:#x}, of {s.name!r}, is none that is known here"
            )

    def collect(self, contents: Mapping[tuple[int, int], bytearray], image: Image) -> None:
        """Fills the image: bytes by address, and names."""
        for key, code in contents.items():
            if code:
                image.segments[self.addresses[key]] = bytes(code)
        image.sections = [(self.objects[n].name, self.kept[n, k].name, at) for (n, k), at in self.addresses.items()]
        image.words = dict(self.words)
        for name, at in self.words.items():
            image.segments[at] = self._pointer(name).to_bytes(4, "little")
        for number in sorted({n for n, _ in self.kept}):
            o = self.objects[number]
            for s in o.symbols:
                kept = self.kept.get((number, s.section))
                if kept is None or not s.name or s.name.startswith(("$", ".L")):
                    continue
                at, thumb = self.addresses[(number, s.section)] + s.value, self.machine == ARM and s.is_function
                clean = at & ~1 if thumb else at
                image.places.append(Placed(s.name, clean, s.size, kept.kind, o.name, s.is_function))
                if s.is_global and self.defined.get(s.name) == (o, s):
                    image.symbols[s.name] = at
            image.gaps += self._gaps(number, o)
        image.places.sort(key=lambda p: p.address)

    def _gaps(self, number: int, o: ElfObject) -> list[tuple[int, int]]:
        """Where mapping symbols of Arm say that data begin ($d), up to where they say that code begins again ($t)."""
        marks: dict[int, list[tuple[int, bool]]] = {}
        for s in o.symbols:
            kept = self.kept.get((number, s.section))
            if kept is not None and kept.kind == "text" and s.name[:2] in ("$d", "$t"):
                marks.setdefault(s.section, []).append((s.value, s.name[1] == "d"))
        found = []
        for section, places in marks.items():
            base, ordered = self.addresses[number, section], sorted(places)
            ends = [*[at for at, _ in ordered[1:]], self.kept[number, section].size]
            found += [
                (base + at, base + end) for (at, data), end in zip(ordered, ends, strict=True) if data and end > at
            ]
        return found

    def _pointer(self, word: str) -> int:
        """The value of a word of the global offset table."""
        first, _, rest = word.partition(":")
        if rest:
            section, value = map(int, rest.split(":"))
            return self.addresses[(int(first), section)] + value
        found = self.defined.get(word)
        if found is not None and not (found[1].is_weak and word in self.outside):
            at, thumb = self.address(*found)
            return at | thumb
        return self.outside.get(word, 0)


def link(
    objects: Sequence[ElfObject],
    roots: Iterable[str],
    place: Place,
    outside: Mapping[str, int] | None = None,
    libraries: Libraries = (),
) -> Image:
    """Links what `roots` need of objects, and of libraries where no object defines it; a function that makes them is called only then.

    place: gives each kind of sections its memory. outside: addresses of symbols that the device has already (odd ones of Thumb functions);
    they come before weak definitions of the objects. Raises LinkError: symbols that nothing defines or that are defined twice,
    relocations that do not reach or are not known.
    """
    if not objects:
        raise LinkError("there is nothing to link: no objects were given")
    linker = _Linker(objects, libraries, outside or {})
    linker.keep(roots)
    image = Image()
    contents = linker.place(place, image)
    linker.relocate(contents, image)
    linker.lines(image)
    linker.collect(contents, image)
    return image


__all__ = ["Image", "Place", "Placed", "link"]
