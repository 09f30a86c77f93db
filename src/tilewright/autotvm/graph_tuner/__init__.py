"""The choice of records and layouts for a whole model; what it does stands in `relay.backend.graph_tuner`, a layer above."""

from tilewright.support import lazy

lazy.declare(
    "tilewright.autotvm.graph_tuner",
    {name: f"tilewright.relay.backend.graph_tuner.tuner:{name}" for name in ("BaseGraphTuner", "DPTuner", "PBQPTuner")},
)
lazy.declare_modules("tilewright.autotvm.graph_tuner")
__getattr__, __dir__ = lazy.late("tilewright.autotvm.graph_tuner")

__all__ = [*lazy.names("tilewright.autotvm.graph_tuner")]
