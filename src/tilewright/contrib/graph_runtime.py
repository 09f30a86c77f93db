"""The older name of `contrib.graph_executor`."""

from tilewright.contrib.graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
