"""tag_suffixes: gives calls from one node of a model separate names."""

from __future__ import annotations

from tilewright.ir import GlobalVar, IRModule, SourceName, Span
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import ExprMutator, post_order

SUFFIX_STRING = "_PART_"


class SuffixTagger(ExprMutator):
    """Renames the spans of calls: "conv" -> "conv_PART_0", "conv_PART_1", ..."""

    def __init__(self) -> None:
        super().__init__()
        self.number: dict[Expr, int] = {}

    def plan(self, func: Function, counts: dict[str, int]) -> None:
        """Numbers the calls of one function, in program order."""
        for e in post_order(func.body):
            name = name_of(e)
            if name is not None:
                self.number[e] = counts.get(name, 0)
                counts[name] = self.number[e] + 1

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        number, span = self.number.get(call), call.span
        if number is None or not isinstance(span, Span):
            return new
        return new.replace(span=span.replace(source_name=SourceName(f"{span.source_name.name}{SUFFIX_STRING}{number}")))


def name_of(e: Expr) -> str | None:
    """The model's node of a call."""
    source = getattr(getattr(e, "span", None), "source_name", None) if isinstance(e, Call) else None
    return None if source is None else str(source.name)


def tag_suffixes(mod: IRModule) -> IRModule:
    """The module with a number after the name of each call's span."""
    counts: dict[str, int] = {}
    functions: dict[GlobalVar, Function] = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, Function):
            tagger = SuffixTagger()
            tagger.plan(func, counts)
            functions[gvar] = tagger.rewritten_function(func)
    return mod.with_functions({**mod.functions, **functions})
