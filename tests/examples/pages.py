"""Runs the code of a Markdown page, top to bottom in one module, and compares what it prints with what the page shows.

A block of ```python is run; a block of ```text right behind it is what it must print, with "..." for what varies. In a block of
```console, lines that begin with "$ " are commands of tilewright, and what follows each is what it must print.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import shlex
import sys
import types
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Block:
    """One fenced block: its language, the line of its first line of text (from 1), its lines."""

    language: str
    line: int
    lines: list[str]


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order; between two that belong together stand only empty lines."""
    found: list[Block] = []
    inside: Block | None = None
    since_last = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                language = line[3:].strip()
                if language == "text" and since_last:
                    language = "prose"
                inside = Block(language, number + 1, [])
            else:
                found.append(inside)
                inside, since_last = None, False
        elif inside is not None:
            inside.lines.append(line)
        elif line.strip():
            since_last = True
    assert inside is None, f"the block that begins on line {inside.line - 1 if inside else 0} has no end"
    return found


def run_page(path: Path) -> None:
    """Raises AssertionError, with the line of the page, where a block prints something else; errors of the code pass."""
    text = path.read_text()
    blocks = blocks_of(text)
    # The parser of scripts and tracebacks read the source: the page with all but its code blank, so that lines agree.
    source = [""] * (len(text.splitlines()) + 1)
    for block in blocks:
        if block.language == "python":
            source[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
    linecache.cache[str(path)] = (len(text), None, [line + "\n" for line in source], str(path))
    module = types.ModuleType(f"page_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    try:
        for block, behind in zip(blocks, [*blocks[1:], None], strict=True):
            if block.language == "console":
                run_commands(path, block)
            if block.language != "python":
                continue
            code = "\n" * (block.line - 1) + "\n".join(block.lines) + "\n"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, str(path), "exec"), module.__dict__)
            if behind is not None and behind.language == "text":
                want, got = "\n".join(behind.lines) + "\n", out.getvalue()
                if not checker.check_output(want, got, flags):
                    raise AssertionError(
                        f"{path.name}:{behind.line}: the page shows\n{want}\nbut the code prints\n{got}"
                    )
    finally:
        del sys.modules[module.__name__], linecache.cache[str(path)]


def run_commands(path: Path, block: Block) -> None:
    """Runs the commands of a block, and compares what each prints, on standard error and output."""
    from tests.cli.command import command
    from tests.driver.tvmc.command import tvmc

    programs = {"tilewright": command, "tvmc": tvmc}
    commands: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(block.lines, block.line):
        if line.startswith("$ "):
            commands.append((number, line[2:], []))
        else:
            commands[-1][2].append(line)
    for number, text, shown in commands:
        words = shlex.split(text, comments=True)
        assert words[0] in programs, f"{path.name}:{number}: only commands of tilewright are run, not {words[0]}"
        done = programs[words[0]](*words[1:])
        want, got = "\n".join(shown).strip() + "\n", (done.err + done.out).strip() + "\n"
        if not doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE):
            raise AssertionError(f"{path.name}:{number}: the page shows\n{want}\nbut the command prints\n{got}")
