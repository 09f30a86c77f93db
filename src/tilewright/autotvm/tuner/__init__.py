"""Tuners: they choose which configurations of a task are measured."""

from tilewright.support import lazy

lazy.declare(
    "tilewright.autotvm.tuner",
    {
        name: f"tilewright.autotvm.tuner.{module}:{name}"
        for module, names in {
            "droplet_tuner": "DropletTuner",
            "ga_tuner": "GATuner",
            "index_based_tuner": "GridSearchTuner RandomTuner",
            "tuner": "Tuner",
            "xgboost_tuner": "XGBTuner",
        }.items()
        for name in names.split()
    },
)
lazy.declare_modules("tilewright.autotvm.tuner")
__getattr__, __dir__ = lazy.late("tilewright.autotvm.tuner")

__all__ = [*lazy.names("tilewright.autotvm.tuner")]
