"""Control flow that is known at import: If with a known condition, Loop with a known number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.support.errors import OpNotImplemented

MOST_ROUNDS = 256


@onnx_op("If")
def _if(node: OnnxNode, condition: Value) -> list[Value]:
    if condition.array is None:
        raise OpNotImplemented(
            "its condition is computed at run time; a condition that is known at import is supported."
            " Pin the input shapes, or export the branch that is needed"
        )
    branch = node.get("then_branch") if bool(condition.array.reshape(-1)[0]) else node.get("else_branch")
    return node.importer.subgraph(branch, {})  # type: ignore[no-any-return]


@onnx_op("Loop")
def _loop(node: OnnxNode, trips: Value | None = None, condition: Value | None = None, *carried: Value) -> list[Any]:
    body = node.get("body")
    if trips is None or trips.array is None or (condition is not None and condition.array is None):
        raise OpNotImplemented("its number of rounds is computed at run time; one that is known at import is supported")
    rounds = int(trips.array.reshape(-1)[0])
    going = condition is None or bool(condition.array.reshape(-1)[0])  # type: ignore[union-attr]
    if rounds > MOST_ROUNDS:
        raise OpNotImplemented(f"it has {rounds} rounds; up to {MOST_ROUNDS} are unrolled")
    state = list(carried)
    scanned: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    names = [i.name for i in body.input]
    for k in range(rounds):
        if not going:
            break
        now = Value(array=np.array(True))
        results = node.importer.subgraph(
            body, dict(zip(names, [Value(array=np.array(k, np.int64)), now, *state], strict=False))
        )
        if results[0].array is None:
            raise OpNotImplemented(
                "whether it goes on is computed at run time; a condition that is known at import is supported"
            )
        going = bool(results[0].array.reshape(-1)[0])
        state = results[1 : 1 + len(state)]
        for rows, row in zip(scanned, results[1 + len(state) :], strict=True):
            rows.append(row)
    if any(not rows for rows in scanned):
        raise OpNotImplemented("its scanned outputs are empty: it runs no round")
    return [*state, *[node.call("stack", rows, axis=0) for rows in scanned]]
