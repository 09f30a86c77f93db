"""What a text begins with: headers, extensions, types and functions that its kernels use, each once."""

from __future__ import annotations


class Prelude:
    """Collects the parts of a text that come before its kernels, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._definitions: dict[str, str] = {}
        self._code: dict[str, None] = {}

    def line(self, text: str) -> None:
        """Adds a line at the top, such as an #include."""
        self._lines[text] = None

    def define(self, key: str, text: str) -> None:
        """Adds a definition, if there is none of that key."""
        self._definitions.setdefault(key, text)

    def complete(self, key: str, text: str) -> None:
        """Puts a definition behind those that it was found to need."""
        del self._definitions[key]
        self._definitions[key] = text

    def defines(self, key: str) -> bool:
        return key in self._definitions

    def code(self, text: str) -> None:
        """Adds code that a program brings with it (pragma import_c)."""
        self._code[text.strip()] = None

    def text(self) -> str:
        """The parts, each group followed by an empty line."""
        groups = [list(self._lines), *[[code] for code in self._code], list(self._definitions.values())]
        return "".join(["\n".join(group) + "\n\n" for group in groups if group])


__all__ = ["Prelude"]
