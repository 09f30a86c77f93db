"""Dialect-independent facts about functions for instruments: size and faults."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tilewright.ir.expr import BaseFunc
from tilewright.ir.module import IRModule
from tilewright.node import post_order_visit

_tools: dict[type, tuple[str, str | None]] = {}


def register_inspection(kind: type[BaseFunc], faults: str, size: str | None = None) -> None:
    """The places ("module:function") of the functions that inspect functions of this class, read at their first use: `faults(func, mod)`
    lists in words what breaks the dialect's rules, `size(func)` counts expressions (without one: all nodes are counted)."""
    _tools[kind] = (faults, size)


def _tool(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


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
    found: list[str] = _tool(tools[0])(func, mod) if tools is not None else []
    return found


def size_of(func: BaseFunc) -> int:
    """The number of expressions or nodes of a function."""
    _, size = _tools.get(type(func), ("", None))
    return int(_tool(size)(func)) if size is not None else _all_nodes(func)
