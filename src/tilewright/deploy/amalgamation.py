"""The native runtime as one C++ file, to add to a build.

The sources become one translation unit: headers are put in where they are first included, and names that are local to a source
(in an unnamed namespace, or static) get the name of the source behind them where another source has the same word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tilewright.deploy.machines import Machine
from tilewright.deploy.native_build import Sources, native_sources, runtime_sources
from tilewright.support.errors import TVMError

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.\']*|::|->|\s+|.',
    re.S,
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">].*$', re.M)
NAME = re.compile(r"[A-Za-z_]\w*")
TYPES = ("struct", "class", "enum", "union")


def amalgamation(machine: Machine, sources: Sources | None = None) -> str:
    """The text of the file, for the system of a machine. Raises TVMError for WebAssembly."""
    if machine.system.package:
        raise TVMError(
            f"the runtime for {machine.name} is a module of its own: `tilewright runtime build --target {machine.name}`"
        )
    sources = sources or native_sources()
    # Of two C++ libraries the program has one already; what replaces a function of it is for a library of our own.
    files = [f for f in runtime_sources(machine, sources) if f.parent.name != "libcxx"]
    return _Unit(sources).text(files)


class _Unit:
    """The translation unit while it is put together."""

    def __init__(self, sources: Sources) -> None:
        self.roots = (sources.include, sources.root / "src")
        self.system: dict[str, None] = {}
        """Headers of the system that are included in all cases, in order."""
        self.seen: set[Path] = set()
        self.headers: list[str] = []
        """Texts of our headers, to tell names that are known everywhere."""

    def text(self, files: list[Path]) -> str:
        names = {f: _label(f, self.roots[1]) for f in files}
        codes = {f: self._expand(f) for f in files}
        words = {f: set(NAME.findall(f.read_text())) for f in files}
        known = {t for text in self.headers for t in _tokens(text)}
        parts = []
        for f in files:
            others = known.union(*[w for g, w in words.items() if g != f])
            own = f.read_text()
            local = (local_names(own) & others) | (loose_names(own) & (others - known))
            parts.append(f"// ==== {names[f]}\n{renamed(codes[f], local, known, names[f])}{_undefined(own)}")
        system = "".join([f"#include <{name}>\n" for name in self.system])
        return (
            "// The runtime of compiled models as one file of C++17, made by `tilewright runtime source`. A program with it\n"
            "// needs no other file of the package; with -rdynamic, libraries that the program loads find the runtime in it.\n"
            f"#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n{system}\n"
            '#if defined(__GNUC__) && !defined(__clang__)\n#pragma GCC diagnostic ignored "-Wmissing-attributes"\n#endif\n'
            '#pragma GCC diagnostic ignored "-Wunused-const-variable"\n'
            f"#pragma GCC visibility push(hidden)\n{''.join(parts)}#pragma GCC visibility pop\n"
        )

    def _expand(self, path: Path) -> str:
        """A file with its headers in it, as far as they were not there before. Lines of a header are marked, so that its names stay."""
        text = path.read_text()
        conditional = _conditional_lines(text)

        def put(found: re.Match[str]) -> str:
            inner = self._find(found[2], path)
            if inner is None:
                if text.count("\n", 0, found.start()) in conditional:
                    return f"#pragma GCC visibility push(default)\n{found[0]}\n#pragma GCC visibility pop"
                self.system.setdefault(found[2])
                return ""
            if inner in self.seen:
                return ""
            self.seen.add(inner)
            self.headers.append(inner.read_text())
            return f"{BEGIN}{self._expand(inner)}{END}"

        return INCLUDE.sub(put, text.replace("#pragma once\n", ""))

    def _find(self, name: str, includer: Path) -> Path | None:
        for folder in (includer.parent, *self.roots):
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None


BEGIN, END = "\n/*header<*/", "/*>header*/\n"


def _label(path: Path, root: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix().replace("/", "_")


def _conditional_lines(text: str) -> set[int]:
    """Lines between #if and #endif, but for the guard of a header."""
    depth, inside = 0, set()
    guard = re.search(r"^#ifndef (\w+)\n#define \1\n", text, re.M)
    guarded = text.count("\n", 0, guard.start()) if guard else -1
    for i, line in enumerate(text.splitlines()):
        if re.match(r"#\s*if", line) and i != guarded:
            depth += 1
        elif re.match(r"#\s*endif", line) and depth:
            depth -= 1
        if depth:
            inside.add(i)
    return inside


def _tokens(text: str) -> list[str]:
    """Tokens without spaces, comments and lines for the preprocessor."""
    lines = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.M)
    return [t for t in TOKEN.findall(lines) if not t.isspace() and not t.startswith(("//", "/*"))]


def _statements(text: str) -> Iterator[tuple[bool, list[str]]]:
    """What is declared at the level of namespaces: whether in an unnamed one, and its tokens up to its body."""
    tokens, at = _tokens(text), 0
    scopes: list[bool] = []
    statement: list[str] = []
    while at < len(tokens):
        t = tokens[at]
        if t == "{":
            unnamed = statement == ["namespace"]
            if (
                unnamed
                or statement[:1] == ["namespace"]
                or (statement[:1] == ["extern"] and statement[-1].startswith('"'))
            ):
                scopes.append(unnamed)
                statement = []
            else:
                if "=" not in statement or statement[0] == "using":
                    yield any(scopes), statement
                    statement = ["{}"] if statement[:1] and statement[0] in TYPES else []
                at = _closing(tokens, at)
        elif t == "}":
            scopes.pop()
            statement = []
        elif t == ";":
            if statement and statement != ["{}"]:
                yield any(scopes), statement
            statement = []
        elif t == "(":
            end = _closing(tokens, at)
            statement += tokens[at : end + 1]
            at = end
        else:
            statement.append(t)
        at += 1


def _closing(tokens: list[str], at: int) -> int:
    opening, closing = tokens[at], {"{": "}", "(": ")"}[tokens[at]]
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] == opening) - (tokens[i] == closing)
        if depth == 0:
            return i
    raise ValueError(f"a {opening} is never closed")


def _declared(statement: list[str]) -> str | None:
    """The name that a statement declares; None where it declares none, or a member of a class."""
    rest = [
        t
        for t in statement
        if t not in ("static", "inline", "constexpr", "const", "thread_local", "extern", "final", "noexcept")
    ]
    if rest[:1] == ["template"]:
        depth = 0
        for i, t in enumerate(rest[1:], 1):
            depth += (t == "<") - (t == ">")
            if depth == 0:
                rest = rest[i + 1 :]
                break
    if not rest or rest[0] in ("namespace", "friend", "static_assert"):
        return None
    if rest[0] == "using":
        return rest[1] if "=" in rest and rest[1] != "namespace" else None
    if rest[0] in TYPES and "(" not in rest:
        names = [t for t in rest[1:] if NAME.fullmatch(t) and t not in (*TYPES, "alignas")]
        # `struct X {`, or a variable of such a type
        return names[0] if names and "=" not in rest else None
    stop = next((i for i, t in enumerate(rest) if t in ("(", "=", "[")), len(rest))
    # Attributes have brackets of their own.
    while stop < len(rest) and rest[stop - 1] in ("__attribute__", "alignas"):
        stop = next((i for i in range(_closing(rest, stop) + 1, len(rest)) if rest[i] in ("(", "=", "[")), len(rest))
    if stop < 2 or not NAME.fullmatch(rest[stop - 1]) or rest[stop - 2] in ("::", "operator"):
        return None
    return rest[stop - 1]


def local_names(text: str) -> set[str]:
    """Names that only this source knows: in unnamed namespaces, or static."""
    return {n for unnamed, s in _statements(text) if (unnamed or s[:1] == ["static"]) and (n := _declared(s))}


def loose_names(text: str) -> set[str]:
    """Types and constants that a source declares for itself, where no header does."""
    kinds = (*TYPES, "using", "const", "constexpr")
    return {n for _, s in _statements(text) if s[:1] and s[0] in kinds and (n := _declared(s))}


def renamed(code: str, names: set[str], known: set[str], label: str) -> str:
    """A source, with its headers in it, whose local names end in its own; those in headers stay. A member has a local name only where no
    header has the word, so that it is one of a class in this source."""
    if not names:
        return code.replace(BEGIN, "\n").replace(END, "\n")
    result, depth, before, earlier = [], 0, "", ""
    for token in TOKEN.findall(code):
        if token == BEGIN.strip():
            depth += 1
            continue
        if token == END.strip():
            depth -= 1
            continue
        member = (before in (".", "->") and token in known) or (
            before == "::" and earlier != "tw" and NAME.fullmatch(earlier) is not None
        )
        result.append(f"{token}_of_{label}" if not depth and token in names and not member else token)
        if not token.isspace() and not token.startswith(("//", "/*")):
            earlier, before = before, token
    return "".join(result)


def _undefined(text: str) -> str:
    return "".join(
        [f"#undef {name}\n" for name in dict.fromkeys(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M))]
    )
