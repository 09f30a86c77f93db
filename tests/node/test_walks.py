"""What a program holds, found without a visitor of one's own."""

from __future__ import annotations

from tilewright import tir
from tilewright.node import Node, any_node, has_node, nodes_of


def test_walks() -> None:
    x, y = tir.Var("x"), tir.Var("y")
    part = x * 2
    e = tir.Select(part > y, part + 1, y)
    assert has_node(e, tir.Mul) and has_node(e, tir.Div, tir.Add) and not has_node(e, tir.Div)
    assert nodes_of(e, tir.Mul) == [part] and nodes_of(e, tir.Var) == [x, y]
    assert any_node(e, lambda n: n is y) and not any_node(part, lambda n: n is y)


def test_it_looks_no_further() -> None:
    seen: list[Node] = []
    a, b = tir.Var("a"), tir.Var("b")
    assert any_node((a + 1) * b, lambda n: bool(seen.append(n) or isinstance(n, tir.Add)))
    assert b not in seen and len(seen) == 2
