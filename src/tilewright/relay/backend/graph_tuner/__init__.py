"""The choice of a record for each operator of a model, so that the operators and the relayouts between them take the least time (classic
`autotvm.graph_tuner`).

pbqp           partitioned boolean quadratic problems: variables with costs, and costs between pairs of them
elimination    their exact solution by dynamic programming
layout_graph   such a problem from a model and records
tuner          measures relayouts, solves, writes records
"""

from tilewright.support import lazy

lazy.declare(
    "tilewright.relay.backend.graph_tuner",
    {
        name: f"tilewright.relay.backend.graph_tuner.tuner:{name}"
        for name in ("BaseGraphTuner", "DPTuner", "PBQPTuner", "get_infer_layout", "layout_transform")
    },
)
__getattr__, __dir__ = lazy.late("tilewright.relay.backend.graph_tuner")

__all__ = [*lazy.names("tilewright.relay.backend.graph_tuner")]
