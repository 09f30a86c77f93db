"""Graphs of operators as lists of entries."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright import TVMError, relay
from tilewright.autotvm.graph_tuner import utils
from tilewright.autotvm.graph_tuner.utils import traverse_graph
from tilewright.ir import Op

CONV = [Op.get("nn.conv2d")]


def network() -> Any:
    """Two convolutions whose results are added, then a third one."""
    x = relay.var("x", shape=(1, 8, 6, 6))
    w = [relay.var(f"w{i}", shape=(8, 8, 1, 1)) for i in range(3)]

    def conv(data: Any, i: int) -> Any:
        return relay.nn.conv2d(data, w[i], kernel_size=(1, 1), channels=8)

    first = relay.nn.relu(conv(x, 0))
    second = relay.nn.relu(conv(first, 1))
    y = conv(relay.add(first, second), 2)
    mod = tvm.IRModule.from_expr(relay.Function([x, *w], relay.nn.batch_flatten(relay.nn.relu(y))))
    return relay.transform.InferType()(mod)["main"]


def listed(func: Any) -> tuple[list[dict[str, Any]], dict[str, list[int]]]:
    """The entries of a function, and their indices by the names of operators and parameters."""
    found: dict[Any, int] = {}
    entries: list[dict[str, Any]] = []
    utils.expr2graph(func, CONV, found, entries, "llvm")
    assert all([found[e["node"]] == i for i, e in enumerate(entries)])
    places: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        places.setdefault(entry["name"] or getattr(entry["op"], "name", type(entry["node"]).__name__), []).append(i)
    return entries, places


def test_entries_and_ancestors() -> None:
    entries, at = listed(network())
    convs, (add,), (x,) = at["nn.conv2d"], at["add"], at["x"]
    assert [entries[i]["workloads"][0][0] for i in convs] == ["conv2d_NCHWc.x86"] * 3
    assert entries[convs[0]]["inputs"] == [[x, 0, 0], [at["w0"][0], 0, 0]]
    assert [str(t) for t in entries[add]["types"]] == [str(entries[x]["types"][0])]
    assert utils.has_multiple_inputs(entries, add, ["x"]) and not utils.has_multiple_inputs(entries, convs[0], ["x"])
    assert [i for i, e in enumerate(entries) if utils.is_boundary_node(e, ["x"])] == [x, *at["nn.batch_flatten"]]
    assert traverse_graph.get_direct_ancestor(entries, {}, CONV, at["nn.relu"][1], ["x"]) == [convs[1]]
    before = utils.get_in_nodes(entries, CONV, ["x"])
    assert before == {convs[0]: [x], convs[1]: [convs[0]], add: [convs[0], convs[1]], convs[2]: [add]}
    assert utils.get_out_nodes(before) == {
        x: [convs[0]], convs[0]: [convs[1], add], convs[1]: [add], add: [convs[2]], convs[2]: [],
    }  # fmt: skip


def test_tuples() -> None:
    x = relay.var("x", shape=(1, 8, 6, 6))
    parts = relay.split(x, 2, axis=1)
    joined = relay.concatenate([relay.nn.relu(parts[1]), parts[0]], axis=1)
    func = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], joined)))["main"]
    entries, at = listed(func)
    (split,), (relu,), (tuple_,), (last,) = at["split"], at["nn.relu"], at["Tuple"], at["concatenate"]
    assert entries[relu]["inputs"] == [[split, 1, 0]] and len(entries[split]["types"]) == 2
    assert entries[last]["inputs"] == entries[tuple_]["inputs"] == [[relu, 0, 0], [split, 0, 0]]
    assert utils.utils.is_skipped_node(entries[tuple_]) and not utils.utils.is_skipped_node(entries[last])
    assert utils.get_in_nodes(entries, CONV, ["x"]) == {}
    nested = relay.Function([x], relay.Tuple([relay.Tuple([x])]))
    with pytest.raises(TVMError, match="no tuples in tuples"):
        listed(relay.transform.InferType()(tvm.IRModule.from_expr(nested))["main"])


def test_new_shapes_of_inputs() -> None:
    func = utils.bind_inputs(network(), {"x": (4, 8, 3, 3)})
    assert str(func.ret_type) == "Tensor[(4, 72), float32]" and [p.name_hint for p in func.params][0] == "x"
    assert utils.bind_inputs(func) is func
    assert str(
        utils.bind_inputs(relay.Function([x := relay.var("x", shape=(2,))], x), {"x": (3,)}, "int8").ret_type
    ) == ("Tensor[(3,), int8]")
