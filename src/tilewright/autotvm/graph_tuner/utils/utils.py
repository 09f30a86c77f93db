"""Names of `relay.backend.graph_tuner.node_list`, where classic programs look for them."""

from tilewright.autotvm.graph_tuner.utils import HOME, NAMES
from tilewright.support import lazy

lazy.declare(__name__, {name: f"{HOME}:{name}" for name in NAMES["utils"]})
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [*lazy.names(__name__)]
