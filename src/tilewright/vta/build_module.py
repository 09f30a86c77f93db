"""Building for the accelerator under the classic names."""

from __future__ import annotations

from typing import Any

from tilewright import driver
from tilewright.ir.transform import PassContext


def build_config(debug_flag: int = 0, **kwargs: Any) -> PassContext:
    """A pass context for building. debug_flag: `Environment.DEBUG_DUMP_INSN` prints the instructions of kernels, `DEBUG_DUMP_UOP` their
    micro-ops, when they are compiled. kwargs: those of PassContext, and options by name in `config`."""
    config = {**kwargs.pop("config", {}), **({"vta.debug_flag": debug_flag} if debug_flag else {})}
    return PassContext(config=config, **kwargs)


def lower(*args: Any, **kwargs: Any) -> Any:
    """`tvm.lower` for the accelerator: a kernel as loops over copies, steps and arithmetic of its memories."""
    return driver.lower(*args, **kwargs)


def build(*args: Any, **kwargs: Any) -> Any:
    """`tvm.build` for the accelerator; the arguments are the same. TVMError for what the accelerator cannot run, and why."""
    return driver.build(*args, **kwargs)


__all__ = ["build", "build_config", "lower"]
