"""A configurable accelerator for tensor programs: its instruction set, its simulators, its driver. `import vta` in classic programs."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare(
    __name__,
    {
        "Configuration": f"{__name__}.configuration:Configuration",
        "build": f"{__name__}.build_module:build",
        "build_config": f"{__name__}.build_module:build_config",
        "lower": f"{__name__}.build_module:lower",
        "Environment": f"{__name__}.environment:Environment",
        "get_env": f"{__name__}.environment:get_env",
        "download_bitstream": f"{__name__}.bitstream:download_bitstream",
        "get_bitstream_path": f"{__name__}.bitstream:get_bitstream_path",
        "module_loader": f"{__name__}.autotvm:module_loader",
        "program_fpga": f"{__name__}.rpc_client:program_fpga",
        "reconfig_runtime": f"{__name__}.rpc_client:reconfig_runtime",
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
