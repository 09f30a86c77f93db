"""Where a node came from: a range of a source file, or a node of an imported model."""

from __future__ import annotations

from tilewright.node import Node, register_converter


class SourceName(Node, key="SourceName"):
    """The name of a source: a file, or a node of a model."""

    name: str


register_converter(
    "SourceName", SourceName, lambda v, where: SourceName(v) if isinstance(v, str) else _refuse(v, where)
)


def _refuse(value: object, where: str) -> SourceName:
    raise TypeError(f"{where} takes a SourceName or a string, but was given {value!r}")


class BaseSpan(Node):
    """Root of spans."""


class Span(BaseSpan, key="Span"):
    """Lines and columns are counted from 1; zeros when the source has none (a model's node)."""

    source_name: SourceName
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


class SequentialSpan(BaseSpan, key="SequentialSpan"):
    """Several spans that were merged into one node."""

    spans: tuple[BaseSpan, ...]
