"""External code generators that take parts of a model: `--target "compute-library, llvm"`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.ir import IRModule
from tilewright.ir.options import OPTIONS

logger = logging.getLogger("TVMC")


def _arm_compute_library(
    mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "", **opts: Any
) -> IRModule:
    from tilewright.relay.op.contrib.arm_compute_lib import partition_for_arm_compute_lib

    return partition_for_arm_compute_lib(mod, params, **opts)


def _dnnl(mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "", **opts: Any) -> IRModule:
    from tilewright.relay.op.contrib.dnnl import partition_for_dnnl

    return partition_for_dnnl(mod, params, **opts)


REGISTERED_CODEGEN: dict[str, dict[str, Any]] = {
    "compute-library": {"config_key": None, "pass_pipeline": _arm_compute_library},
    "dnnl": {"config_key": None, "pass_pipeline": _dnnl},
}
"""Code generators by their names on the command line: the option of passes that holds their settings (None: they have no such option,
and the pipeline takes them), and the pipeline f(mod, params, mod_name=..., **settings) that hands them their parts of a model. A program
may add its own."""


def get_codegen_names() -> list[str]:
    """The names of the code generators."""
    return list(REGISTERED_CODEGEN)


def is_codegen(name: str) -> bool:
    """Whether a name is that of a code generator, of the table or one with a table of patterns or the function `relay.ext.<name>`."""
    from tilewright.relay.op.contrib.register import get_pattern_table
    from tilewright.runtime import get_global_func

    if name in REGISTERED_CODEGEN:
        return True
    return get_pattern_table(name) is not None or get_global_func(f"relay.ext.{name}", allow_missing=True) is not None


def get_codegen_by_target(name: str) -> dict[str, Any]:
    """The entry of a code generator. One that is not in the table takes what its table of patterns and its operators
    (`target.<name>`) say. Raises TVMCException for names that are known in no way."""
    if name in REGISTERED_CODEGEN:
        return REGISTERED_CODEGEN[name]
    if not is_codegen(name):
        raise TVMCException(
            f"Composite target {name} is not defined in TVMC; defined are {', '.join(get_codegen_names())}, and what a program"
            " registers (relay.op.contrib.register_pattern_table, relay.ext.<name>)"
        )

    def pipeline(mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "", **opts: Any) -> IRModule:
        from tilewright.relay.op.contrib.partitioning import partition

        if opts:
            raise TVMCException(f"the code generator {name} takes no options, but was given {', '.join(opts)}")
        return partition(mod, name, params)

    key = f"relay.ext.{name}.options"
    return {"config_key": key if key in OPTIONS else None, "pass_pipeline": pipeline}
