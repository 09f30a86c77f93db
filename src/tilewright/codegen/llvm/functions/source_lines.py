"""Which line of the printed program each instruction is of, as debug information (DWARF) in LLVM IR.

Statements mark the instructions that they emit by comments, which change nothing of the code; `with_locations` makes locations of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tilewright.codegen.llvm.functions.builder import Scope

LineOf = Callable[[object], int | None]
"""The line of a statement in the printed program."""
MARK = " ;@"
_UNIT = """!llvm.dbg.cu = !{{!{0}}}
!llvm.module.flags = !{{!{1}, !{2}}}
!{0} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{3}, isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)
!{1} = !{{i32 2, !"Debug Info Version", i32 3}}
!{2} = !{{i32 7, !"Dwarf Version", i32 4}}
!{3} = !DIFile(filename: "{file}", directory: "")
!{4} = !DISubroutineType(types: !{{null}})"""


def mark_lines(scopes: Iterable[Scope], lengths: Iterable[int], line: int) -> None:
    """Marks the instructions behind the first so many of each scope, other than those that have marks."""
    for scope, length in zip(scopes, lengths, strict=True):
        lines = scope.lines
        lines[length:] = [
            text if MARK in text or not text.startswith("  ") else f"{text}{MARK}{line}" for text in lines[length:]
        ]


def with_locations(text: str, file: str) -> str:
    """The text of a module with a location for each instruction of functions that have marks. file: the name of what the lines are of."""
    first = 1 + max([int(n) for n in re.findall(r"^!(\d+) =", text, re.MULTILINE)], default=-1)
    nodes = [_UNIT.format(*range(first, first + 5), file=file)]
    numbers: dict[str, int] = {}

    def node(content: str) -> int:
        number = numbers.get(content)
        if number is None:
            number = numbers[content] = first + 5 + len(numbers)
            nodes.append(f"!{number} = {content}")
        return number

    found: list[str] = []
    for part in re.split(r"^(?=define )", text, flags=re.MULTILINE):
        found.append(_function(part, first, node) if MARK in part else part)
    return "".join(found).rstrip("\n") + "\n" + "\n".join(nodes) + "\n"


def _function(text: str, unit: int, node: Callable[[str], int]) -> str:
    """A function, and what follows it, with locations."""
    body, end, rest = text.partition("\n}")
    header, *lines = body.split("\n")
    name = header.partition("@")[2].partition("(")[0].strip('"')
    line = int(body.partition(MARK)[2].split("\n")[0].split(MARK)[0])
    scope = node(
        f'distinct !DISubprogram(name: "{name}", scope: !{unit + 3}, file: !{unit + 3}, line: {line}, type: !{unit + 4},'
        f" scopeLine: {line}, spFlags: DISPFlagDefinition, unit: !{unit})"
    )
    made = [header.removesuffix("{") + f"!dbg !{scope} {{"]
    for given in lines:
        plain, _, marked = given.partition(MARK)
        line = int(marked) if marked else line
        at = (
            f", !dbg !{node(f'!DILocation(line: {line}, column: 1, scope: !{scope})')}"
            if plain.startswith("  ")
            else ""
        )
        made.append(plain + at)
    return "\n".join(made) + end + rest


__all__ = ["LineOf", "mark_lines", "with_locations"]
