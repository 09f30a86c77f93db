"""The older name of `contrib.debugger.debug_executor`."""

from tilewright.contrib.debugger.debug_executor import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
