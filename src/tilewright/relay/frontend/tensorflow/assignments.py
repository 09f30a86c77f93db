"""Checks of variables that the program may assign before it reads them, so their saved values would be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.formats.tensorflow_messages import Message
from tilewright.relay.frontend.tensorflow.value import Handle

if TYPE_CHECKING:
    from tilewright.relay.frontend.tensorflow.graph import Scope, TensorFlowImporter

ASSIGNMENTS = (
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterUpdate", "ResourceScatterAdd",
    "ResourceScatterSub", "ResourceScatterNdUpdate", "ResourceScatterNdAdd", "ResourceStridedSliceAssign",
)  # fmt: skip


def called(node: Message) -> list[str]:
    """Names of the functions that a node calls."""
    found = [a.func.name for a in node.attr.values() if a.HasField("func")]
    return found + [f.name for a in node.attr.values() if a.HasField("list") for f in a.list.func]


def assignment_before(home: TensorFlowImporter, scope: Scope, read: Any, handle: Handle) -> str:
    """The node that certainly runs before `read` and may assign its variable; "" if there is none."""
    waiting, seen = [_name(r) for r in read.input], set()
    while waiting:
        name = waiting.pop()
        node = scope.nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        waiting += [_name(r) for r in node.input]
        given = node.input[:1] if node.op in ASSIGNMENTS else node.input if assigns(home.functions, node) else ()
        if any([_is(home, scope, r, handle) for r in given]):
            return name
    return ""


def assigns(functions: Mapping[str, Message], node: Message) -> bool:
    """Whether a function that a node calls, directly or not, assigns to a variable."""
    waiting, seen = [*called(node), node.op], set()
    while waiting:
        name = waiting.pop()
        if name in functions and name not in seen:
            seen.add(name)
            for inner in functions[name].node_def:
                if inner.op in ASSIGNMENTS:
                    return True
                waiting += [*called(inner), inner.op]
    return False


def _name(ref: str) -> str:
    return ref.removeprefix("^").split(":")[0]


def _is(home: TensorFlowImporter, scope: Scope, ref: str, handle: Handle) -> bool:
    """Whether an input (an evaluated one, or a variable) is this variable."""
    name = _name(ref)
    if name not in scope.values and getattr(scope.nodes.get(name), "op", "") != "VarHandleOp":
        return False
    found = home.value(scope, ref) if not ref.startswith("^") else None
    return isinstance(found, Handle) and (found.what, found.name) == (handle.what, handle.name)
