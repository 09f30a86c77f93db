"""Text of operands, and how strongly its last operation binds."""

from __future__ import annotations


class Text(str):
    """Text of an operand. strength: how strongly its last operation binds; ATOM for operands that never need parentheses."""

    __slots__ = ("strength",)
    strength: int

    def __new__(cls, text: str, strength: int = 100) -> Text:
        self = super().__new__(cls, text)
        self.strength = strength
        return self

    def at(self, least: int) -> str:
        """The text, in parentheses if its strength is below `least`."""
        return self if self.strength >= least else f"({self})"


ATOM, UNARY, PRODUCT, SUM, SHIFT, RELATION, CONNECTION, CHOICE = 100, 90, 80, 70, 60, 50, 40, 10


def string(text: str) -> Text:
    """A string literal."""
    parts = []
    for byte in text.encode():
        c = chr(byte)
        parts.append(f"\\{c}" if c in '"\\' else c if 32 <= byte < 127 and c != "?" else f"\\{byte:03o}")
    return Text(f'"{"".join(parts)}"')


__all__ = ["ATOM", "CHOICE", "CONNECTION", "PRODUCT", "RELATION", "SHIFT", "SUM", "UNARY", "Text", "string"]
