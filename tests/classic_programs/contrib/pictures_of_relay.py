import io
from contextlib import redirect_stdout

from tvm import relay
from tvm.contrib import relay_viz
from tvm.contrib.relay_viz.interface import DefaultVizParser, VizEdge, VizNode
from tvm.contrib.relay_viz.terminal import TermPlotter, TermVizParser
from tvm.relay import testing

mod, params = testing.mlp.get_workload(batch_size=1)
out = io.StringIO()
with redirect_stdout(out):
    relay_viz.RelayVisualizer(relay_mod=mod, relay_param=params, plotter=TermPlotter(), parser=TermVizParser()).render()
text = out.getvalue()
assert "@main" in text and "Call nn.softmax" in text and "Var(Param)(name_hint: fc1_weight" in text


class Counting(DefaultVizParser):
    """Calls in capitals."""

    def get_node_edges(self, node, relay_param, node_to_id):
        if isinstance(node, relay.Call) and node.op.name == "nn.relu":
            me = node_to_id[node]
            return VizNode(me, "RELU", ""), [VizEdge(node_to_id[node.args[0]], me)]
        return super().get_node_edges(node, relay_param, node_to_id)


class Seen(relay_viz.interface.VizGraph):
    def __init__(self):
        self.nodes, self.edges = [], []

    def node(self, viz_node):
        self.nodes.append(viz_node.type_name)

    def edge(self, viz_edge):
        self.edges.append((viz_edge.start, viz_edge.end))


class Collector(relay_viz.interface.Plotter):
    def __init__(self):
        self.graphs = {}

    def create_graph(self, name):
        self.graphs[name] = Seen()
        return self.graphs[name]

    def render(self, filename):
        self.filename = filename


plotter = Collector()
relay_viz.RelayVisualizer(mod, params, plotter, Counting()).render("mlp")
assert plotter.filename == "mlp" and plotter.graphs["main"].nodes.count("RELU") == 2
assert len(plotter.graphs["main"].edges) > 10
