"""Dialect-independent facts about functions for instruments: size and faults."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.expr import BaseFunc
from tilewright.ir.module import IRModule
from tilewright.node import post_order_visit

Faults = Callable[[BaseFunc, IRModule], list[str]]
Size = Callable[[BaseFunc], int]

_tools: dict[type, tuple[Faults, Size]] = {}


def register_inspection(kind: type[BaseFunc], faults: Faults, size: Size | None = None) -> None:
    """How functions of this class are inspected: `faults(func, mod)` says in words what breaks the dialect's rules,
    `size(func)` counts expressions (without one: all nodes are counted)."""
    _tools[kind] = (faults, size or _all_nodes)


def _all_nodes(func: BaseFunc) -> int:
    count = 0

    def visit(node: object) -> None:
        nonlocal count
        count += 1

    post_order_visit(func, visit)
    return count


def faults_of(func: BaseFunc, mod: IRModule) -> list[str]:
    """The faults of a function of a module; empty if its dialect finds none, or checks nothing."""
    tools = _tools.get(type(func))
    return tools[0](func, mod) if tools is not None else []


def size_of(func: BaseFunc) -> int:
    """The number of expressions or nodes of a function."""
    tools = _tools.get(type(func))
    return tools[1](func) if tools is not None else _all_nodes(func)
