"""Pictures of relay programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import relay_viz
from tilewright.contrib.relay_viz.dot import DotPlotter, DotVizParser
from tilewright.contrib.relay_viz.interface import VizEdge, VizNode


def module() -> tvm.IRModule:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    return tvm.IRModule.from_expr(relay.Function([x, w], relay.add(y, y)))


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    relay_viz.RelayVisualizer(module(), {"w": None}).render()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("@main(") and lines[1] == "Func"
    assert lines[2] == "`--Call add" and lines[3] == "   `--Call nn.relu"
    assert lines[4].startswith("      `--Call nn.conv2d(") and "padding: " in lines[4]
    assert lines[5] == "         `--Var(Input)(name_hint: x, shape: (1, 3, 8, 8), dtype: float32)"
    assert lines[6].startswith("         `--Var(Param)(name_hint: w")
    assert lines[7] == "   `--Call nn.relu of line 4"


def test_files(tmp_path: Path) -> None:
    relay_viz.RelayVisualizer(module(), plotter=relay_viz.TermPlotter()).render(str(tmp_path / "text"))
    assert "Call nn.conv2d" in (tmp_path / "text").read_text()
    relay_viz.RelayVisualizer(module(), {}, DotPlotter(graph_attr={"rankdir": "LR"}), DotVizParser()).render(
        str(tmp_path / "graph")
    )
    text = (tmp_path / "graph_main.gv").read_text()
    assert text.startswith('digraph "main" {') and text.count(" -> ") == 6 and 'rankdir="LR"' in text


def test_parts_of_the_program() -> None:
    class Graph(relay_viz.VizGraph):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def node(self, viz_node: VizNode) -> None:
            self.seen.append(viz_node.type_name)

        def edge(self, viz_edge: VizEdge) -> None:
            self.seen.append(f"{viz_edge.start}-{viz_edge.end}")

    class Mine(relay_viz.Plotter):
        def create_graph(self, name: str) -> Graph:
            self.graph = Graph()
            return self.graph

        def render(self, filename: str | None = None) -> None: ...

    mine = Mine()
    relay_viz.RelayVisualizer(module(), plotter=mine).render()
    assert "Call nn.relu" in mine.graph.seen and sum("-" in s for s in mine.graph.seen) == 6
