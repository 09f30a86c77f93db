"""Source text that is being parsed, and error texts that underline a piece of it."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from typing import Any

from tilewright.ir.span import SourceName, Span
from tilewright.script.underline import excerpt, register_source
from tilewright.support.errors import DiagnosticError


class Source:
    """The lines of a file, and the syntax trees of what is parsed in it; line numbers are the file's."""

    def __init__(self, filename: str, lines: list[str]) -> None:
        self.filename, self.lines = filename, lines
        self.name = SourceName(filename)
        register_source(self.name, lines)
        # Offsets of syntax trees count bytes of UTF-8, so columns of other lines must be worked out.
        self._ascii = "".join(lines).isascii()

    def span(self, node: Any, last: Any = None) -> Span:
        """The place of a syntax tree in this text, or from its begin to the end of another one."""
        end = node if last is None else last
        line, end_line = node.lineno, end.end_lineno
        if self._ascii:
            return Span(self.name, line, end_line, node.col_offset + 1, end.end_col_offset + 1)
        return Span(
            self.name, line, end_line, self._column(line, node.col_offset), self._column(end_line, end.end_col_offset)
        )

    def _column(self, line: int, offset: int) -> int:
        return len(self.lines[line - 1].encode()[:offset].decode(errors="ignore")) + 1

    def report(self, node: Any, message: str, remedy: str = "") -> str:
        """`message`, the place of `node`, its first line with carets below, and the remedy."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None)
        start, end = 1, 0
        if line <= len(self.lines):
            start, end = self._column(line, column), self._column(line, node.end_col_offset) if end_line == line else 0
        place = Span(self.name, line, line, start, end)
        return f"error: {message}\n{excerpt(place, self.lines, remedy=remedy)}"

    def error(self, node: Any, message: str, remedy: str = "") -> DiagnosticError:
        error = DiagnosticError(self.report(node, message, remedy))
        error.finding = self.span(node) if getattr(node, "end_lineno", None) else None, message
        return error

    def parse(self) -> ast.Module:
        """The syntax tree of the whole text."""
        try:
            return ast.parse("".join(self.lines), self.filename)
        except SyntaxError as error:
            raise self.syntax_error(error) from None

    def syntax_error(self, error: SyntaxError) -> DiagnosticError:
        place = ast.Pass()
        place.lineno, place.col_offset = error.lineno or 1, max((error.offset or 1) - 1, 0)
        place.end_lineno, place.end_col_offset = place.lineno, place.col_offset + 1
        return self.error(place, f"this is not Python: {error.msg}")


class NoSource(Source):
    """The source of programs that Python builds: there is no text to point at."""

    def __init__(self) -> None:
        super().__init__("<builder>", [])

    def span(self, node: Any, last: Any = None) -> Any:
        return None


_trees: dict[str, tuple[list[str], ast.Module]] = {}


def file_source(code_file: str, namespace: dict[str, Any]) -> Source:
    """The source of a file that Python has loaded. Raises DiagnosticError when there is no text of it."""
    lines = linecache.getlines(code_file, namespace)
    if not lines:
        raise DiagnosticError(
            f"the source text of {code_file} cannot be read, and a script is parsed from its text;"
            " put it into a file, or use tvm.script.from_source"
        )
    return Source(code_file, lines)


def whole_tree(source: Source) -> ast.Module:
    """The tree of a file, kept until its lines change."""
    found = _trees.get(source.filename)
    if found is None or found[0] is not source.lines:
        found = _trees[source.filename] = (source.lines, source.parse())
    return found[1]


def definition_at(source: Source, line: int, name: str) -> ast.FunctionDef:
    """The function of that name whose first line, decorators included, is `line`."""
    node = _block_at(source, line)
    if isinstance(node, ast.FunctionDef) and node.name == name:
        return node

    def here(n: ast.AST) -> bool:
        return isinstance(n, ast.FunctionDef) and n.name == name and first_line(n) <= line <= n.lineno

    for found in ast.walk(whole_tree(source)):
        if here(found):
            assert isinstance(found, ast.FunctionDef)
            return found
    raise DiagnosticError(
        f"{source.filename}:{line}: there is no function {name} on this line of the file as it is now"
    )


def class_definition(source: Source, qualname: str, accept: Callable[[ast.ClassDef], bool]) -> ast.ClassDef:
    """The class of that dotted name that `accept` takes; the last one when several do."""
    path = [p for p in qualname.split(".") if p != "<locals>"]
    found: list[ast.ClassDef] = []

    def look(nodes: list[Any], depth: int) -> None:
        for n in nodes:
            if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == path[depth]:
                if depth < len(path) - 1:
                    look(n.body, depth + 1)
                elif isinstance(n, ast.ClassDef) and accept(n):
                    found.append(n)
            elif not isinstance(n, (ast.ClassDef, ast.FunctionDef)):
                for part in ("body", "orelse", "finalbody", "handlers"):
                    look(getattr(n, part, None) or [], depth)

    look(whole_tree(source).body, 0)
    if not found:
        raise DiagnosticError(f"{source.filename}: there is no class {qualname} in the file as it is now")
    return found[-1]


def first_line(node: Any) -> int:
    """The line a definition starts on, decorators included."""
    line: int = min([node.lineno, *[d.lineno for d in node.decorator_list]])
    return line


def _block_at(source: Source, line: int) -> ast.stmt | None:
    """The statement that starts on a line, found by indentation alone; None when that does not work out."""
    lines = source.lines
    indent = _indent(lines[line - 1])
    stop, inside = line, False
    while stop < len(lines):
        text = lines[stop]
        stripped = text.lstrip()
        if stripped and not stripped.startswith("#"):
            if _indent(text) <= indent and inside:
                break
            inside = inside or _indent(text) > indent
        stop += 1
    text = "".join(lines[line - 1 : stop])
    try:
        # A statement that holds it keeps the columns as they are.
        tree = ast.parse(f"if 1:\n{text}" if indent else text)
    except SyntaxError:
        return None
    ast.increment_lineno(tree, line - (2 if indent else 1))
    body: list[ast.stmt] = tree.body
    if indent and body and isinstance(body[0], ast.If):
        body = body[0].body
    return body[0] if body else None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
