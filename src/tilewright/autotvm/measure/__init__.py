"""Measurements of configurations."""

from tilewright.support import lazy

lazy.declare(
    "tilewright.autotvm.measure",
    {
        name: f"tilewright.autotvm.measure.measure:{name}"
        for name in ("MeasureErrorNo", "MeasureInput", "MeasureResult", "create_measure_batch")
    },
)
lazy.declare_modules("tilewright.autotvm.measure")
__getattr__, __dir__ = lazy.late("tilewright.autotvm.measure")

__all__ = [*lazy.names("tilewright.autotvm.measure")]
