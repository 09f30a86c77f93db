"""Reads relay's text format: `relay.parse(text)`, `relay.parse_expr(text)`, `relay.fromtext(text)`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.expr import Expr, Function
from tilewright.relay.functor import post_order
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_expr_text, parse_module_text
from tilewright.relay.source_map import remember
from tilewright.relay.typing.infer_type import infer_module

__all__ = ["SpanCheck", "fromtext", "parse", "parse_expr"]

Meta = Mapping[str, list[Any]]


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Meta | None = None,
) -> IRModule:
    """The module that a text says, its types checked. It starts from the functions and types of `init_module`;
    `init_meta_table` holds values for `meta[kind][index]` beside those of the text's own metadata section.

    Raises DiagnosticError with the place in the text, be it misspelt or ill-typed.
    """
    remember(source_name, source)
    mod = parse_module_text(Source(source_name, source), init_module, init_meta_table)
    infer_module(mod)
    return mod


def parse_expr(source: str, init_module: IRModule | None = None, init_meta_table: Meta | None = None) -> Expr:
    """The expression that a text says; its free variables are declared by `free_var %x: type;` before it."""
    remember("from_string", source)
    return parse_expr_text(Source("from_string", source), init_module, init_meta_table)


def fromtext(source: str, source_name: str = "from_string") -> Expr | IRModule:
    """The module or, where the text defines no function, the expression that a text says."""
    remember(source_name, source)
    program = Source(source_name, source)
    words = source.replace("[", " ").replace("@", " ").split()
    if any([w in words for w in ("def", "type", "extern")]):
        return parse(source, source_name)
    return parse_expr_text(program, None, None)


@module_pass(opt_level=0, name="SpanCheck")
class SpanCheck:
    """Warn of every expression that does not know where in a text, or at which node of a model, it stands."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for gvar, f in mod.functions.items():
            if isinstance(f, Function):
                lost = [
                    e
                    for e in post_order(f)
                    if "span" in {x.name for x in e._fields} and getattr(e, "span", None) is None
                ]
                for e in lost:
                    text = " ".join(repr(e).split())
                    warnings.warn(f"@{gvar.name_hint}: no span is known of {text[:80]}", stacklevel=2)
        return mod
