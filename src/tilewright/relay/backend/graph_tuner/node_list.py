"""The graph of a model's operators as a list of entries under its classic names, and which operators depend on which.

An entry is {"node": the expression, "op": its Op or None, "name": of a parameter or constant, "inputs": [[index, output, 0], ...], "types":
the tensor types of its results, "workloads": of its templates, for operators that are asked for}.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from tilewright.autotvm.task.workload import args_to_workload
from tilewright.ir import IRModule, Op, TupleType
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var, bind, var
from tilewright.relay.functor import post_order
from tilewright.relay.rewriting import typed
from tilewright.relay.transform.operators.template_calls import candidates
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError
from tilewright.target import Target

Entry = dict[str, Any]
FIXED = frozenset(
    (
        "nn.batch_flatten", "transpose", "reshape", "vision.multibox_prior", "vision.multibox_transform_loc", "where",
        "vision.non_max_suppression", "strided_slice",
    )
)  # fmt: skip
"""Operators that need plain data: layouts do not pass them."""


def expr2graph(
    expr: Function,
    target_ops: Sequence[Op],
    node_dict: MutableMapping[Expr, int],
    node_list: list[Entry],
    tvm_target: Target | str,
) -> None:
    """Fills node_dict with the index of each expression of a function whose types are known, and node_list with their entries, operands
    first. target_ops: the operators whose workloads are wanted, for tvm_target. Raises TVMError for a tuple in a tuple, and for expressions
    that are no parts of a graph."""
    target = tvm_target if isinstance(tvm_target, Target) else Target(tvm_target)
    for node in post_order(expr):
        if isinstance(node, (Function, Op)) or node in node_dict:
            continue
        entry = _entry(node, node_dict, node_list)
        if isinstance(node, Call) and entry["op"] in target_ops:
            entry["workloads"] = [args_to_workload(args, name) for name, args in candidates(node, target)]
        node_dict[node] = len(node_list)
        node_list.append(entry)


def _entry(node: Expr, node_dict: Mapping[Expr, int], node_list: Sequence[Entry]) -> Entry:
    entry: Entry = {"node": node, "op": None, "name": None, "inputs": [], "types": []}
    if isinstance(node, Call) and isinstance(node.op, Op):
        entry["op"] = node.op
        for arg in node.args:
            entry["inputs"] += _read(arg, node_dict, node_list)
    elif isinstance(node, Var):
        entry["name"] = node.name_hint
    elif isinstance(node, Constant):
        entry["name"] = f"Constant_{len(node_list)}"
    elif isinstance(node, TupleGetItem):
        entry["inputs"].append([node_dict[node.tuple_value], node.index, 0])
    elif isinstance(node, Tuple):
        for field in node.fields:
            if isinstance(field, Tuple):
                raise TVMError(
                    "a graph of operators has no tuples in tuples: flatten them before its layouts are chosen"
                )
            entry["inputs"] += _read(field, node_dict, node_list)
    else:
        raise TVMError(
            f"a graph of operators has calls, tuples, parameters and constants, but no {type(node).__name__}"
        )
    if not isinstance(node, (Tuple, TupleGetItem)):
        found = typed(node).checked_type
        entry["types"] = list(found.fields) if isinstance(found, TupleType) else [found]
    return entry


def _read(value: Expr, node_dict: Mapping[Expr, int], node_list: Sequence[Entry]) -> list[list[int]]:
    """What an operand is: of a tuple, and of an item of one, what these are made of."""
    index = node_dict[value]
    if isinstance(value, (Tuple, TupleGetItem)):
        return [list(i) for i in node_list[index]["inputs"]]
    return [[index, 0, 0]]


def bind_inputs(expr: Any, input_shapes: Mapping[str, Any] | None = None, input_dtypes: Any = "float32") -> Any:
    """A function whose parameters have new shapes, by their names. input_dtypes: a type, or types by name."""
    if input_shapes is None:
        return expr
    dtypes = dict.fromkeys(input_shapes, input_dtypes) if isinstance(input_dtypes, str) else dict(input_dtypes)
    new = {name: var(name, shape=tuple(shape), dtype=dtypes[name]) for name, shape in input_shapes.items()}
    params = [new.get(p.name_hint, p) for p in expr.params]
    body = bind(expr.body, {p: q for p, q in zip(expr.params, params, strict=True) if p is not q})
    return infer_module(IRModule.from_expr(Function(params, body)))["main"]


def is_boundary_node(node_entry: Entry, input_names: Sequence[str]) -> bool:
    """Whether layouts end here: at an input of the model, and at an operator that needs plain data."""
    op = node_entry["op"]
    return op is not None and op.name in FIXED or node_entry["name"] in input_names


def is_skipped_node(node_entry: Entry) -> bool:
    """Whether it computes nothing: a tuple."""
    return isinstance(node_entry["node"], Tuple)


def has_multiple_inputs(
    node_list: Sequence[Entry], node_idx: int, input_names: Sequence[str], opt_out_op: Sequence[str] = ()
) -> bool:
    """Whether an expression reads several values that are computed, or inputs of the model; parameters with weights, constants and results
    of the operators opt_out_op, by name, do not count."""
    return len(_values(node_list, node_idx, input_names, opt_out_op)) > 1


def _values(
    node_list: Sequence[Entry], node_idx: int, input_names: Sequence[str], opt_out_op: Sequence[str] = ()
) -> list[int]:
    """What an expression reads that is computed, or an input of the model."""
    found = []
    for index, *_ in node_list[node_idx]["inputs"]:
        entry = node_list[index]
        computed = entry["op"] is not None and entry["op"].name not in opt_out_op
        if computed or entry["name"] in input_names or isinstance(entry["node"], (Tuple, TupleGetItem)):
            found.append(index)
    return found


def _is_choice(node_list: Sequence[Entry], index: int, target_ops: Sequence[Op], input_names: Sequence[str]) -> bool:
    """Whether the layout of a value is a choice: the operator is asked for, or reads several values."""
    op = node_list[index]["op"]
    return op is not None and op in target_ops or has_multiple_inputs(node_list, index, input_names)


def get_direct_ancestor(
    node_list: Sequence[Entry],
    visited_dict: MutableMapping[int, list[int]],
    target_ops: Sequence[Op],
    node_idx: int,
    input_names: Sequence[str],
) -> list[int]:
    """The nearest expressions before one whose layouts are choices (operators of target_ops, those that read several values) or where
    layouts end. An end is its own ancestor. visited_dict: what is known already; all that is found is added."""
    stack = [node_idx]
    while stack:
        index = stack[-1]
        if index in visited_dict or is_boundary_node(node_list[index], input_names):
            stack.pop()
            continue
        through = [
            i
            for i in _values(node_list, index, input_names)
            if not _is_choice(node_list, i, target_ops, input_names) and not is_boundary_node(node_list[i], input_names)
        ]
        left = [i for i in through if i not in visited_dict]
        if left:
            stack += left
            continue
        found: dict[int, None] = {}
        for i in _values(node_list, index, input_names):
            found.update(dict.fromkeys(visited_dict[i] if i in through else [i]))
        visited_dict[index] = list(found)
        stack.pop()
    return visited_dict.get(node_idx, [node_idx])


def get_in_nodes(
    node_list: Sequence[Entry], target_ops: Sequence[Op], input_names: Sequence[str]
) -> dict[int, list[int]]:
    """The operators of target_ops and those that read several values, each with its nearest ancestors of these kinds. What no operator of
    target_ops comes before is left out, and so are ancestors that are not of these kinds."""
    visited: dict[int, list[int]] = {}
    for index, entry in enumerate(node_list):
        if entry["op"] is not None and not is_boundary_node(entry, input_names) and not is_skipped_node(entry):
            get_direct_ancestor(node_list, visited, target_ops, index, input_names)
    found: dict[int, list[int]] = {}
    for index in sorted(visited):
        if is_skipped_node(node_list[index]) or not _is_choice(node_list, index, target_ops, input_names):
            continue
        # Operands come before, so what is known of them is final.
        wanted = node_list[index]["op"] in target_ops
        known = [i for i in visited[index] if i in found or wanted]
        if known or wanted:
            found[index] = known
    return found


def get_out_nodes(in_node_dict: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """For each index of `get_in_nodes`, and each ancestor: which have it as an ancestor."""
    found: dict[int, list[int]] = {index: [] for index in in_node_dict}
    for index, ancestors in in_node_dict.items():
        for ancestor in ancestors:
            found.setdefault(ancestor, []).append(index)
    return found


__all__ = [
    "bind_inputs", "expr2graph", "get_direct_ancestor", "get_in_nodes", "get_out_nodes", "has_multiple_inputs",
    "is_boundary_node", "is_skipped_node",
]  # fmt: skip
