"""Programs as text: the document printer with node -> text spans. Dialects register hooks; none is known here."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from typing import Any

from tilewright.ir import GlobalVar, IRModule, Op, PointerType, PrimType
from tilewright.node.base import install_script, register_printer
from tilewright.script import ir_hooks as ir_hooks
from tilewright.script.doc import Span
from tilewright.script.highlight import cprint
from tilewright.script.parser.entry import parse_text
from tilewright.script.printer import (
    Printer,
    PrinterConfig,
    expr_hook,
    print_doc,
    print_short,
    register_prefix,
    stmt_hook,
    underlined,
)
from tilewright.script.underline import Printed, numbered, underline, underline_all
from tilewright.support import lazy

__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "Printed",
    "Printer",
    "PrinterConfig",
    "Span",
    "expr_hook",
    "from_source",
    "ir",
    "ir_builder",
    "ir_module",
    "print_doc",
    "print_short",
    "print_script",
    "register_prefix",
    "script",
    "show",
    "stmt_hook",
    "tir",
    "underline",
    "underline_all",
]


def from_source(program: Any, extra_vars: dict[str, Any] | None = None, check_well_formed: bool = True) -> Any:
    """The function or module that a text defines, the last one when there are several.

    `extra_vars` are the names that the text may use, T, I, tir and ir when none are given. A Python function or
    class is parsed as its decorator would. check_well_formed: refuse variables that nothing defines.
    """
    if inspect.isclass(program):
        return ir.ir_module(program, check_well_formed=check_well_formed)
    if callable(program):
        return tir.prim_func(program, check_well_formed=check_well_formed)
    if not isinstance(program, str):
        raise TypeError(f"from_source takes a text, a function or a class, but was given {type(program).__name__}")
    names = {"I": ir, "ir": ir, "T": tir, "tir": tir} if extra_vars is None else dict(extra_vars)
    return parse_text(program, names, check_well_formed=check_well_formed)


def print_script(node: Any, **options: Any) -> Printed:
    """The printed program with its spans; options are the fields of PrinterConfig."""
    return print_doc(node, PrinterConfig(**options))


def script(node: Any, **options: Any) -> str:
    """The text of a program, complete enough to be parsed back to an equal one.

    Options are the fields of PrinterConfig; `obj_to_underline` nodes are marked below their lines.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], _OPTIONS, 3)
        remedy = f"did you mean {' or '.join(near)}?" if near else f"the options are {', '.join(_OPTIONS)}"
        raise TypeError(f"script has no option {unknown[0]}; {remedy}")
    config = PrinterConfig(**options)
    result = underlined(node, print_doc(node, config), config)
    return numbered(result) if config.print_line_numbers else result


_OPTIONS = tuple(f.name for f in dataclasses.fields(PrinterConfig))


def show(node: Any, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
    """Prints a program to standard output, in colour on a terminal; `highlight.cprint` says what the options mean."""
    cprint(script(node, **options), style, black_format)


# Python text as nodes, where classic programs look for them.
_DOCS = (
    "AssertDoc", "AssignDoc", "AttrAccessDoc", "CallDoc", "ClassDoc", "CommentDoc", "DictDoc", "Doc", "DocStringDoc", "ExprDoc",
    "ExprStmtDoc", "ForDoc", "FunctionDoc", "IdDoc", "IfDoc", "IndexDoc", "LambdaDoc", "ListDoc", "LiteralDoc", "OperationDoc",
    "OperationKind", "ReturnDoc", "ScopeDoc", "SliceDoc", "StmtBlockDoc", "StmtDoc", "TupleDoc", "WhileDoc",
)  # fmt: skip
lazy.faces(
    f"{__name__}.printer",
    {
        "doc": [f"{__name__}.doc_nodes:{name}" for name in _DOCS],
        "doc_printer": (f"{__name__}.doc_nodes:to_python_script",),
    },
)

install_script(script, show)
register_printer(IRModule, script)
register_printer(GlobalVar, lambda g: f'I.GlobalVar("{g.name_hint}")')
for _cls in (Op, PrimType, PointerType):
    register_printer(_cls, print_short)

from tilewright.script import ir, ir_builder, tir  # noqa: E402  # the vocabularies build on all of the above
from tilewright.script.ir import ir_module  # noqa: E402
