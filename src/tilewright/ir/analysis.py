"""What is known of a module as a whole."""

from __future__ import annotations

from tilewright.ir.expr import GlobalVar
from tilewright.ir.module import IRModule
from tilewright.node import post_order_visit


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """Function -> the functions that it names, each once, in order."""
    found: dict[GlobalVar, list[GlobalVar]] = {}
    for name, function in module.functions.items():
        called: dict[GlobalVar, None] = {}

        def note(node: object, called: dict[GlobalVar, None] = called) -> None:
            if isinstance(node, GlobalVar):
                called[node] = None

        post_order_visit(function, note)
        found[name] = list(called)
    return found
