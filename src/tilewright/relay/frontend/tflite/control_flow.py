"""Converters of control flow, calls and variables: known branches and loops are resolved at import; the virtual machine runs others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.cards.relations import known_equal
from tilewright.relay.expr import Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.frontend.common.loops import settled
from tilewright.relay.frontend.tflite.graph import Importer, resource_key
from tilewright.relay.frontend.tflite.node import Node, Resource, Value, tflite_op
from tilewright.support.errors import OpNotImplemented

MOST_ROUNDS = 64
"""The largest number of rounds up to which loops with known conditions are unrolled."""


def scalar(node: Node, x: Value) -> Value:
    """A tensor of one element as a scalar."""
    return x if not x.ndim else node.reshape(x, ())


def unchanged(importer: Importer, before: dict[str, Value], what: str) -> None:
    """Raises OpNotImplemented if only one of the branches wrote a variable."""
    if any([importer.variables.get(k) is not v for k, v in before.items()]) or len(before) != len(importer.variables):
        raise OpNotImplemented(
            f"{what} writes variables; supported: branches and loops that give back what they compute"
        )


@tflite_op("IF")
def _if(node: Node, condition: Value, *inputs: Any) -> list[Any]:
    yes, no = int(node.get("then_subgraph_index")), int(node.get("else_subgraph_index"))
    importer: Importer = node.importer
    if condition.is_number and condition.array is not None:
        return importer.call(yes if bool(condition.array.reshape(-1)[0]) else no, inputs)
    before = dict(importer.variables)
    sides = [importer.call(g, inputs) for g in (yes, no)]
    unchanged(importer, before, "a branch that the data choose")
    for a, b in zip(*sides, strict=True):
        if not isinstance(a, Value) or not isinstance(b, Value) or a.dtype != b.dtype or a.ndim != b.ndim:
            raise OpNotImplemented("its branches return tensors of different rank or type")
    if not all([known_equal(p, q) for a, b in zip(*sides, strict=True) for p, q in zip(a.shape, b.shape, strict=True)]):
        raise OpNotImplemented("its branches return tensors of different shapes; pad them to one shape")
    made = [Tuple(tuple([v.expr for v in side])) for side in sides]
    choice = If(scalar(node, condition).expr, made[0], made[1])
    return [Value(TupleGetItem(choice, i), quant=v.quant) for i, v in enumerate(sides[0])]


@tflite_op("STABLEHLO_CASE")
def _case(node: Node, index: Value, *inputs: Any) -> Any:
    branches = [int(i) for i in node.get("branch_subgraph_indices")]
    if not index.is_number or index.array is None:
        raise OpNotImplemented("its index must be known at import, but the model computes it; use IF")
    k = int(index.array.reshape(-1)[0])
    return node.importer.call(branches[k if 0 <= k < len(branches) else -1], inputs)


@tflite_op("WHILE", "STABLEHLO_WHILE")
def _while(node: Node, *inputs: Any) -> list[Any]:
    condition, body = int(node.get("cond_subgraph_index")), int(node.get("body_subgraph_index"))
    importer: Importer = node.importer
    state = list(inputs)
    for _ in range(MOST_ROUNDS):
        (going,) = importer.call(condition, state)[:1]
        if not going.is_number or going.array is None:
            break
        if not going.array.reshape(-1)[0]:
            return state
        state = importer.call(body, state)
    # A loop with a data-dependent condition, or a long one, runs as recursion from its start.
    return _recursion(node, condition, body, list(inputs))


def _recursion(node: Node, condition: int, body: int, state: list[Any]) -> list[Any]:
    importer: Importer = node.importer
    moving = [k for k, v in enumerate(state) if isinstance(v, Value)]
    before = dict(importer.variables)

    def values(of: list[Var]) -> list[Any]:
        made = list(state)
        for k, v in zip(moving, of, strict=True):
            made[k] = Value(v, quant=state[k].quant)
        return made

    def once(now: list[Var]) -> tuple[list[Any], Value]:
        going = importer.call(condition, values(now))[0]
        made = importer.call(body, values(now))
        unchanged(importer, before, "a loop")
        return [made[k] for k in moving], going

    now, after, going = settled([state[k] for k in moving], once)
    loop = Var("loop")
    again = loop(*[v.expr for v in after])
    step = Function([*now], If(scalar(node, going).expr, again, Tuple((*now,))))
    called = Let(loop, step, loop)(*[state[k].expr for k in moving])
    result = list(state)
    for place, k in enumerate(moving):
        result[k] = Value(TupleGetItem(called, place), quant=state[k].quant)
    return result


@tflite_op("CALL")
def _call(node: Node, *inputs: Any) -> Any:
    return node.importer.call(int(node.get("subgraph")), inputs)


@tflite_op("STABLEHLO_COMPOSITE")
def _composite(node: Node, *inputs: Any) -> Any:
    # The subgraph computes the composite operator.
    return node.importer.call(int(node.get("decomposition_subgraph_index")), inputs)


# ---- variables and tables


@tflite_op("CALL_ONCE")
def _call_once(node: Node) -> list[Any]:
    # The importer ran the initialisers before main's first operator.
    return []


@tflite_op("VAR_HANDLE", "HASHTABLE")
def _handle(node: Node) -> Resource:
    if node.name == "HASHTABLE":
        return Resource(f"table {int(node.get('table_id'))}")
    assert node.options is not None
    return Resource(resource_key(node.options))


@tflite_op("READ_VARIABLE")
def _read(node: Node, handle: Resource) -> Value:
    importer: Importer = node.importer
    if handle.key not in importer.variables:
        raise OpNotImplemented(f"the variable {handle.key!r} is read before anything is written to it")
    return importer.variables[handle.key]


@tflite_op("ASSIGN_VARIABLE")
def _assign(node: Node, handle: Resource, value: Value) -> list[Any]:
    node.importer.variables[handle.key] = value
    return []


@tflite_op("HASHTABLE_IMPORT")
def _import_table(node: Node, handle: Resource, keys: Value, values: Value) -> list[Any]:
    node.importer.tables[handle.key] = (node.numbers(keys, "keys"), node.numbers(values, "values"))
    return []


@tflite_op("HASHTABLE_SIZE")
def _table_size(node: Node, handle: Resource) -> Value:
    return Value(array=np.array([len(_table(node, handle)[0])], np.int64))


def _table(node: Node, handle: Resource) -> tuple[np.ndarray, np.ndarray]:
    importer: Importer = node.importer
    if handle.key not in importer.tables:
        raise OpNotImplemented(f"the {handle.key} is read before HASHTABLE_IMPORT filled it")
    return importer.tables[handle.key]


@tflite_op("HASHTABLE_FIND")
def _find(node: Node, handle: Resource, wanted: Value, default: Value) -> Value:
    keys, values = _table(node, handle)
    keys, values = keys.reshape(-1), values.reshape(-1)
    if not len(keys):
        return node.broadcast(node.reshape(default, ()), wanted.shape)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    place = node.call("searchsorted", Value(array=keys), wanted, right=False, dtype="int32")
    place = node.call("minimum", place, len(keys) - 1)
    found = node.call("equal", node.call("take", Value(array=keys), place, axis=0), wanted)
    return node.call("where", found, node.call("take", Value(array=values), place, axis=0), node.reshape(default, ()))
