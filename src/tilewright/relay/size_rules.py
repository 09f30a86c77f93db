"""Conditions on the extents of a function's arguments under which its body is right; executors check them at calls.

Some are in the parameters' types: a size that stands in two places is the same in both, and a dimension `n + 1` is one more than
`n`. Others are stated by whoever made the function (an exported program's ranges), in its attribute `size_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, TensorType, Type
from tilewright.relay.cards.relations import is_any
from tilewright.relay.texts import dim_text
from tilewright.support.errors import TVMError
from tilewright.tir import EQ
from tilewright.tir import Var as SizeName
from tilewright.tir.stmt_functor import post_order_visit, substitute

STATED = "size_rules"
"""The attribute of a function with what is stated of its arguments."""
StatedRule = tuple[PrimExpr, str, str, Sequence[tuple[str, int]]]
"""A condition, the rule in words, the remedy, and (parameter, axis or NUMBER) of each of the condition's variables, in the order of
`variables`: names of variables need not outlive a print."""


NUMBER = -1
"""The axis of a parameter that is an integer itself: its value counts as an extent."""


def size_title(name: str, axis: int) -> str:
    """The name of an extent in messages."""
    return name if axis == NUMBER else f"{name}.shape[{axis}]"


def stated(condition: PrimExpr, text: str, remedy: str, places: Mapping[SizeName, tuple[str, int]]) -> StatedRule:
    """A rule about the extents that the variables of a condition stand for."""
    return condition, text, remedy, tuple([places[v] for v in variables(condition)])


class SizeRule(NamedTuple):
    """A condition over extents of arguments: its variables, with (parameter, axis) and the name of each."""

    condition: PrimExpr
    text: str
    remedy: str
    extents: Mapping[SizeName, tuple[int, int]]
    titles: Sequence[str]

    def message(self, values: Sequence[object]) -> str:
        """The rule, what was found where the extents are these values, and the remedy."""
        found = " and ".join([f"{name} is {n}" for name, n in zip(self.titles, values, strict=True)])
        return f"{self.text}, but {found}{'. ' + self.remedy if self.remedy else ''}"

    def holds(self, values: Sequence[int]) -> bool:
        """Whether extents of these values keep the rule."""
        table = {v: IntImm("int64", n) for v, n in zip(self.extents, values, strict=True)}
        found = Analyzer().simplify(substitute(self.condition, table))
        return bool(isinstance(found, IntImm) and found.value)


def size_rules(names: Sequence[str], types: Sequence[Type | None], stated: Iterable[StatedRule] = ()) -> list[SizeRule]:
    """The rules of a function whose parameters have these names and types, without those that the types alone keep. Raises TVMError
    where the types break one."""
    left = []
    for rule in [*_typed(names, types), *_about(names, types, stated)]:
        known = [_number(types[p], axis) for p, axis in rule.extents.values()]
        numbers = [n for n in known if n is not None]
        if len(numbers) < len(known):
            left.append(rule)
        elif not rule.holds(numbers):
            raise TVMError(rule.message(numbers))
    return left


def _typed(names: Sequence[str], types: Sequence[Type | None]) -> list[SizeRule]:
    """Extents that the types say twice, or as expressions of others."""
    first: dict[SizeName, tuple[int, int]] = {}
    again: list[tuple[PrimExpr, int, int]] = []
    for i, t in enumerate(types):
        for axis, d in enumerate(t.shape) if isinstance(t, TensorType) else ():
            if isinstance(d, SizeName) and d not in first:
                first[d] = i, axis
            elif not isinstance(d, IntImm) and not is_any(d):
                again.append((d, i, axis))
    rules = []
    for d, i, axis in again:
        inner = variables(d)
        if not all([v in first for v in inner]):
            continue
        places = [(i, axis), *[first[v] for v in inner]]
        own, *others = [SizeName(f"d{k}", "int64") for k in range(len(places))]
        wanted = substitute(d, dict(zip(inner, others, strict=True)))
        titles = [size_title(names[p], a) for p, a in places]
        text = f"dimension {axis} of {names[i]} must equal {_with_titles(dim_text(wanted), titles)}"
        rules.append(SizeRule(EQ(own, wanted), text, "", dict(zip([own, *others], places, strict=True)), titles))
    return rules


def _with_titles(text: str, titles: Sequence[str]) -> str:
    """A condition's text with the extents' own names for d0, d1, ..."""
    return re.sub(r"\bd(\d+)\b", lambda m: titles[int(m[1])], text)


def _about(names: Sequence[str], types: Sequence[Type | None], stated: Iterable[StatedRule]) -> list[SizeRule]:
    """The stated rules, but those about parameters that the function has no more."""
    index = {name: i for i, name in enumerate(names) if isinstance(types[i], TensorType)}
    rules = []
    for condition, text, remedy, places in stated:
        if not all([name in index for name, _ in places]):
            continue
        extents = {v: (index[name], axis) for v, (name, axis) in zip(variables(condition), places, strict=True)}
        rules.append(SizeRule(condition, text, remedy, extents, [size_title(name, axis) for name, axis in places]))
    return rules


def variables(e: PrimExpr) -> list[SizeName]:
    """The variables of an expression, each once."""
    found: dict[SizeName, None] = {}

    def note(node: object) -> None:
        if isinstance(node, SizeName):
            found.setdefault(node)

    post_order_visit(e, note)
    return list(found)


def _number(t: Type | None, axis: int) -> int | None:
    """An extent that a type says."""
    d = t.shape[axis] if isinstance(t, TensorType) and 0 <= axis < len(t.shape) else None
    return d.value if isinstance(d, IntImm) else None
