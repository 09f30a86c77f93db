"""Results of branches. Values of one structure are joined; others stay a choice until a node's results have a common type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright.ir import PrimExpr
from tilewright.relay.expr import Expr, If, Tuple, TupleGetItem
from tilewright.relay.frontend.common.unsupported import DAMAGE
from tilewright.relay.frontend.onnx.packed import matched, rebuilt, scalar, tensors
from tilewright.relay.frontend.onnx.value import Choice, Item, OnnxNode, Question, Value
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented
from tilewright.tir import Any as AnyDim


def same_array(a: Item, b: Item) -> bool | None:
    """Whether two known values, which may contain symbols, are equal; None if one of them is unknown."""
    if not (isinstance(a, Value) and isinstance(b, Value)) or a.array is None or b.array is None:
        return None
    if a.array.shape != b.array.shape or a.element != b.element:
        return False
    pairs = zip(a.array.reshape(-1).tolist(), b.array.reshape(-1).tolist(), strict=True)
    return all([x is y or not isinstance(x, PrimExpr) and not isinstance(y, PrimExpr) and x == y for x, y in pairs])


def known_apart(a: Item, b: Item) -> bool:
    """Whether two values are known and differ. Results of a choice that are known on both sides, or differ in rank, identify the side, so
    a later condition on them is decided on each side."""
    return same_array(a, b) is False


def either(
    node: OnnxNode, condition: Value, yes: list[Item], no: list[Item], question: Question, of_choice: bool = False
) -> list[Item]:
    """The results of a node for both values of a condition. Values without a common type stay a choice. of_choice: the operands of the
    node are a choice; then different known values stay apart, too."""
    if all([same_array(a, b) for a, b in zip(yes, no, strict=True)]):
        return yes
    pairs = [None if of_choice and known_apart(a, b) else common(node, a, b) for a, b in zip(yes, no, strict=True)]
    known = joined(node, condition, [p[0] for p in pairs if p], [p[1] for p in pairs if p])
    return [
        known.pop(0)
        if pair
        else Choice(condition, sheltered(node, condition, a), sheltered(node, condition, b, False), question)
        for a, b, pair in zip(yes, no, pairs, strict=True)
    ]


def common(node: OnnxNode, a: Item, b: Item) -> tuple[Any, Any] | None:
    """Two values converted to one structure; None if that is impossible."""
    if isinstance(a, Choice) or isinstance(b, Choice):
        return None
    try:
        return matched(node, a, b)
    except OpNotImplemented:
        return None


def sheltered(node: OnnxNode, condition: Value, value: Item, taken: bool = True) -> Any:
    """A value that both sides of the condition can compute: zeros of its shape on the side where it is not `taken`."""
    if isinstance(value, Choice):
        sides = [sheltered(node, condition, v, taken) for v in (value.yes, value.no)]
        return Choice(value.condition, sides[0], sides[1], value.question)
    made = []
    for t in tensors(value):
        shape = tuple([1 if isinstance(d, AnyDim) else d for d in t.shape])
        zeros: Expr = node.call("zeros", shape=shape, dtype=t.dtype)
        sides = [t.expr, zeros] if taken else [zeros, t.expr]
        made.append(t if t.array is not None else Value(If(scalar(node, condition).expr, *sides)))
    return rebuilt(value, made)


def of_choices(node: OnnxNode, inputs: list[Item], convert: Callable[[list[Any]], list[Any]]) -> list[Item]:
    """The results of a node whose inputs are choices. They become one value as soon as they have a common type.

    If the node refuses one of the two values, a run that chooses it ends with an error."""
    importer = node.importer
    choice: Choice = next(v for v in inputs if isinstance(v, Choice))
    found: list[list[Any] | Exception] = []
    for side in ("yes", "no"):
        with importer.assuming(choice.condition, side):
            given = [importer.taken(v) for v in inputs]
            try:
                made = importer.tried(partial(convert, given))
                _ = [v.type for v in made if isinstance(v, Value) and v.array is None]
                found.append(made)
            except (OpNotImplemented, DiagnosticError, ModelError, *DAMAGE) as error:
                found.append(error)
    yes, no = found
    if isinstance(yes, list) and isinstance(no, list):
        return either(node, choice.condition, yes, no, choice.question, of_choice=True)
    if isinstance(yes, Exception) and isinstance(no, Exception):
        raise yes
    answers = yes if isinstance(yes, list) else no
    assert isinstance(answers, list)
    return [demanded(node, choice, v, answers is yes, f"{node.op_type} {node.name!r} takes") for v in answers]


def demanded(node: OnnxNode, choice: Choice, value: Item, yes: bool, who: str) -> Any:
    """A value that exists only in one branch. A run that takes the other one ends with an error. who: `Gemm 'y' takes`."""
    if isinstance(value, Choice):
        sides = [demanded(node, choice, v, yes, who) for v in (value.yes, value.no)]
        return Choice(value.condition, sides[0], sides[1], value.question)
    number = node.cast(scalar(node, choice.condition), "int64")
    asked = choice.question
    name = f"{asked.condition}, since {who} only {asked.yes if yes else asked.no},"
    made = [Value(node.call("dyn.within", t, number, low=int(yes), high=int(yes), name=name)) for t in tensors(value)]
    return rebuilt(value, made)


def taken(value: Item, assumed: Sequence[tuple[Value, str]]) -> Any:
    """A value under decided conditions: (condition, the side that its choices take)."""
    if not assumed or not isinstance(value, Choice):
        return value
    side = next((s for c, s in assumed if c is value.condition), None)
    if side is not None:
        return taken(getattr(value, side), assumed)
    yes, no = taken(value.yes, assumed), taken(value.no, assumed)
    return value if yes is value.yes and no is value.no else Choice(value.condition, yes, no, value.question)


def one_value(node: OnnxNode, value: Item) -> Any:
    """The joined value of a choice, if its sides have a common type; other values are returned unchanged."""
    if not isinstance(value, Choice):
        return value
    yes, no = one_value(node, value.yes), one_value(node, value.no)
    return joined(node, value.condition, [yes], [no])[0] if common(node, yes, no) else value


def with_rank(node: OnnxNode, value: Item, rank: int) -> Any:
    """The sides of a choice that have this rank, joined if they have a common type; None if neither has it."""
    if not isinstance(value, Choice):
        return value if isinstance(value, Value) and value.ndim == rank else None
    yes, no = [with_rank(node, v, rank) for v in (value.yes, value.no)]
    if yes is None and no is None:
        return None
    if yes is not None and no is not None:
        return either(node, value.condition, [yes], [no], value.question, of_choice=True)[0]
    found = no if yes is None else yes
    return demanded(node, value, found, yes is not None, f"the output {node.name!r}, declared with {rank} axes, is")


def joined(node: OnnxNode, condition: Value, yes: list[Item], no: list[Item]) -> list[Item]:
    """The results of an `If` with these two branches. Extents that differ become dynamic."""
    pairs = [matched(node, a, b) for a, b in zip(yes, no, strict=True)]
    sides = [Tuple(tuple([t.expr for pair in pairs for t in tensors(pair[k])])) for k in (0, 1)]
    choice = If(scalar(node, condition).expr, sides[0], sides[1])
    made = [Value(TupleGetItem(choice, i)) for i in range(len(sides[0].fields))]
    return [rebuilt(a, made) for a, _ in pairs]
