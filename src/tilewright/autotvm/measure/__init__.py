"""Measurements of configurations."""

from tilewright.support import lazy

lazy.declare(
    "tilewright.autotvm.measure",
    {
        name: f"tilewright.autotvm.measure.{module}:{name}"
        for module, names in {
            "measure": "MeasureErrorNo MeasureInput MeasureResult create_measure_batch",
            "executor": "Executor",
            "measure_methods": "LocalBuilder LocalRunner RPCRunner default_module_loader measure_option request_remote",
        }.items()
        for name in names.split()
    },
)
lazy.declare_modules("tilewright.autotvm.measure")
__getattr__, __dir__ = lazy.late("tilewright.autotvm.measure")

__all__ = [*lazy.names("tilewright.autotvm.measure")]
