"""The driver: lower() and build(), and the pipelines that they run."""

from tilewright.driver.build_module import build, build_lowered, lower
from tilewright.driver.pipeline import device_pipeline, host_pipeline, lower_for, lower_module, lower_pipeline
from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "build",
    "build_lowered",
    "device_pipeline",
    "host_pipeline",
    "lower",
    "lower_for",
    "lower_module",
    "lower_pipeline",
]
