"""The parser of programs in Python syntax: names, expressions, statements and errors. Dialects say what they mean."""

from tilewright.script.parser.entry import (
    ModuleParser,
    function_from,
    macro_from,
    module_from,
    parse_definition,
    parse_text,
)
from tilewright.script.parser.expressions import PYTHON_OPERATORS
from tilewright.script.parser.source import Source
from tilewright.script.parser.statements import Frame, MetaVar, Scope, ScriptParser, active, active_or_none, reading
from tilewright.support import lazy

__all__ = [
    "PYTHON_OPERATORS",
    "Frame",
    "MetaVar",
    "ModuleParser",
    "Scope",
    "ScriptParser",
    "Source",
    "active",
    "active_or_none",
    "function_from",
    "macro_from",
    "module_from",
    "parse_definition",
    "parse_text",
    "reading",
]

lazy.declare(
    __name__,
    {
        "ir": "tilewright.script.ir",
        "tir": "tilewright.script.tir",
        "from_source": "tilewright.script:from_source",
        "parse": "tilewright.script:from_source",
        "ir_module": "tilewright.script.ir:ir_module",
        "prim_func": "tilewright.script.tir:prim_func",
    },
)
__getattr__, __dir__ = lazy.late(__name__)
