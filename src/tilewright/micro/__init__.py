"""Microcontrollers: boards, sessions with them, firmware, packages of sources or objects."""

from __future__ import annotations

from tilewright.support import lazy

_FORMAT = f"{__name__}.model_library_format"
lazy.declare(
    __name__,
    {name: f"{_FORMAT}:{name}" for name in ("UnsupportedInModelLibraryFormatError", "export_model_library_format")},
)
lazy.declare(
    __name__,
    {
        "Board": f"{__name__}.board:Board",
        "MicroExecutor": f"{__name__}.executor:MicroExecutor",
        "MicroFunction": f"{__name__}.module:MicroFunction",
        "MicroModule": f"{__name__}.module:MicroModule",
        "MicroRunner": f"{__name__}.tuning:MicroRunner",
        "tune_kernels": f"{__name__}.kernel_tuning:tune_kernels",
        "micro_builder": f"{__name__}.tuning:micro_builder",
        "Session": f"{__name__}.session:Session",
        "create_micro_mod": f"{__name__}.module:create_micro_mod",
        "export_arduino": f"{__name__}.export.arduino:export_arduino",
        "export_project": f"{__name__}.export.project:export_project",
        "firmware_report": f"{__name__}.export.project:firmware_report",
        "generate_config": f"{__name__}.device:generate_config",
        "known_boards": f"{__name__}.board:known_boards",
    },
)
_PLACES = {
    "build": "AutoTvmModuleLoader autotvm_build_func autotvm_module_loader",
    "errors": "SessionTerminatedError",
    "local_executor": "create_local_debug_executor create_local_graph_executor",
    "project": "GeneratedProject TemplateProject generate_project generate_project_from_mlf",
    "standalone": "get_microtvm_template_projects get_standalone_crt_dir",
    "transport.base": "Transport TransportLogger",
    "transport_session": "create_local_aot_executor",
}
"""Names of projects, and of sessions with them, by the module that has them."""
lazy.declare(
    __name__, {name: f"{__name__}.{place}:{name}" for place, names in _PLACES.items() for name in names.split()}
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
