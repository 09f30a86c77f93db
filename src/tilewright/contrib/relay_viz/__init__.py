"""Pictures of relay programs: as text in a terminal (`TermPlotter`), as graphs (`dot.DotPlotter`), or by a plotter of the program."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.contrib.relay_viz.interface import Plotter, VizGraph, VizParser
from tilewright.contrib.relay_viz.terminal import TermPlotter, TermVizParser
from tilewright.ir import IRModule
from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)


class RelayVisualizer:
    """Draws the functions of a module. relay_param: parameters by name. plotter, parser: by default those of text; either can be given."""

    def __init__(
        self,
        relay_mod: IRModule,
        relay_param: dict[str, Any] | None = None,
        plotter: Plotter | None = None,
        parser: VizParser | None = None,
    ) -> None:
        self._plotter = plotter or TermPlotter()
        self._parser = parser or TermVizParser()
        self._params = relay_param or {}
        for var, function in relay_mod.functions.items():
            if isinstance(function, relay.Function):
                self._add(self._plotter.create_graph(var.name_hint), function)

    def _add(self, graph: VizGraph, function: relay.Function) -> None:
        names: dict[Any, str] = {}
        for node in relay.analysis.post_order(function):
            names[node] = str(len(names))
        for node in names:
            found, edges = self._parser.get_node_edges(node, self._params, names)
            if found is not None:
                graph.node(found)
            for edge in edges:
                graph.edge(edge)

    def render(self, filename: str | None = None) -> None:
        """Draws all functions into a file; by the text plotter, onto the terminal if it is None."""
        self._plotter.render(filename)


__all__ = ["Plotter", "RelayVisualizer", "TermPlotter", "TermVizParser", "VizGraph", "VizParser", "relay"]
