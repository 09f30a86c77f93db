"""MergeComposite: turns matches of a pattern table into functions with the pattern's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.ir import BaseFunc, GlobalVar, IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.dataflow_pattern.patterns import DFPattern
from tilewright.relay.expr import Expr
from tilewright.relay.transform.byoc.annotations import own_functions
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError

Entry = tuple[str, DFPattern, Callable[[Expr], Any]]


def _accept(e: Expr) -> bool:
    return True


def checked_table(table: Iterable[Sequence[Any]], where: str) -> list[Entry]:
    """The entries of a pattern table with their checks. Raises TVMError for an invalid entry; `where` names the table in its message."""
    if isinstance(table, (str, DFPattern)) or not isinstance(table, Iterable):
        raise TVMError(
            f"{where} takes a list of (name, pattern) or (name, pattern, check), but was given {type(table).__name__}"
        )
    found: list[Entry] = []
    for i, entry in enumerate(table):
        what = f"{where}: entry {i} of the pattern table"
        if not isinstance(entry, (tuple, list)) or len(entry) not in (2, 3):
            size = f" of {len(entry)}" if isinstance(entry, (tuple, list)) else ""
            raise TVMError(
                f"{what} must be (name, pattern) or (name, pattern, check), but is a {type(entry).__name__}{size}"
            )
        name, pattern, *rest = entry
        if not isinstance(name, str) or not name:
            raise TVMError(f'{what} must begin with a name such as "dnnl.conv2d_relu", but begins with {name!r}')
        if not isinstance(pattern, DFPattern):
            remedy = "; call the function that makes it" if callable(pattern) else ""
            raise TVMError(f"{what}, {name}, must hold a dataflow pattern, but holds {type(pattern).__name__}{remedy}")
        check = rest[0] if rest else None
        if check is not None and not callable(check):
            raise TVMError(
                f"{what}, {name}, must have a function as its check, but has {type(check).__name__}: {check!r}"
            )
        found.append((name, pattern, check or _accept))
    return found


def MergeComposite(pattern_table: Iterable[Sequence[Any]]) -> Pass:
    """Replace matches of patterns by calls of functions with the attributes Composite (the pattern's name) and
    PartitionedFromPattern (the operators in it).

    pattern_table: (name, pattern) or (name, pattern, check), tried in this order; `check` gets the matched expression,
    with its type, and returns whether to accept it. The name begins with the compiler's: "dnnl.conv2d_relu". Expressions inside
    a function are not matched again.

        nn.relu(nn.bias_add(nn.conv2d(%x, %w), %b))
    -->
        %1 = fn (%a, %b, %c, Composite="dnnl.conv2d_bias_relu") { nn.relu(nn.bias_add(nn.conv2d(%a, %b), %c)) };
        %1(%x, %w, %b)
    """
    entries = checked_table(pattern_table, "MergeComposite")

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        from tilewright.relay.dataflow_pattern.rewriter import partition

        mod = infer_module(mod)
        for name, pattern, check in entries:
            changed: dict[GlobalVar, BaseFunc] = {}
            for g, f in own_functions(mod).items():
                body = partition(pattern, f.body, {"Composite": name}, check)
                changed[g] = f.replace(body=body)
            if any([mod.functions[g] is not f for g, f in changed.items()]):
                mod = infer_module(mod.with_functions({**mod.functions, **changed}))
        return mod

    return Pass(PassInfo(0, "MergeComposite"), run)
