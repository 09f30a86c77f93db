"""Errors of primitives: the broken rule, the finding, and the program with the culprits underlined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.node import Node
from tilewright.support.errors import ScheduleError
from tilewright.tir import Block, BlockRealize, Buffer, For, Var

if TYPE_CHECKING:
    from tilewright.ir.module import IRModule


__all__ = ["ScheduleError", "Violation", "describe", "refuse", "render"]


class Violation(Exception):
    """Raised inside a primitive; the `primitive` decorator turns it into a ScheduleError with the program shown."""

    def __init__(self, rule: str, culprits: tuple[Node, ...] = ()) -> None:
        super().__init__(rule)
        self.rule, self.culprits = rule, culprits


def refuse(rule: str, *culprits: Any) -> NoReturn:
    """Refuse the primitive. `{0}`, `{1}`, ... in `rule` are replaced by descriptions of the culprits."""
    words = [describe(c) for c in culprits]
    text = re.sub(r"\{(\d+)\}", lambda m: words[int(m[1])] if int(m[1]) < len(words) else m[0], rule)
    raise Violation(text, tuple([c for c in culprits if isinstance(c, Node)]))


def describe(x: Any) -> str:
    """`loop i`, `block C`, `buffer A`; anything else as it prints."""
    if isinstance(x, For):
        return f"loop {x.loop_var.name}"
    if isinstance(x, Block):
        return f"block {x.name_hint}"
    if isinstance(x, BlockRealize):
        return f"block {x.block.name_hint}"
    if isinstance(x, Buffer):
        return f"buffer {x.name}"
    return x.name if isinstance(x, Var) else str(x)


def render(primitive: str, violation: Violation, program: IRModule, level: str = "detail") -> ScheduleError:
    """Make the user's error: one line with rule and finding, then the program with the culprits underlined."""
    if level == "none":
        return ScheduleError(f"{primitive}: the primitive is refused (error_render_level is 'none')")
    text = f"{primitive}: {violation.rule}"
    if level != "detail" or not violation.culprits:
        return ScheduleError(text)
    from tilewright.script import print_script
    from tilewright.script.underline import located, own_span

    printed = print_script(program)
    marks = [(c, describe(c)) for c in violation.culprits]
    return ScheduleError(
        located(f"{text}\n{printed.underline(marks)}", *[c for c, _ in marks if own_span(c)], labels=dict(marks))
    )
