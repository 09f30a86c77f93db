"""Tuning of templates (classic AutoTVM): a function writes a schedule and leaves knobs open; tuners search for their fastest choices.

env              the state of a process
task             templates, the spaces of their configurations, tasks, contexts that give configurations
measure          builders and runners, on those of `tilewright.tuning`
record           logs in the classic format
database         measurements by their inputs
tuner            what chooses the configurations that are measured
feature          what cost models see of a program
"""

from tilewright.support import lazy

lazy.declare(
    "tilewright.autotvm",
    {
        name: f"tilewright.autotvm.{module}:{name}"
        for module, names in {
            "env": "GLOBAL_SCOPE",
            "measure.measure": "MeasureErrorNo MeasureInput MeasureResult",
            "measure.measure_methods": "LocalBuilder LocalRunner RPCRunner measure_option",
            "task.dispatcher": "DispatchContext FallbackContext",
            "task.space": "ConfigEntity ConfigSpace",
            "task.task": "create get_config template",
            "task.topi_integration": "register_topi_compute register_topi_schedule",
        }.items()
        for name in names.split()
    }
    | {
        "callback": "tilewright.autotvm.tuner.callback",
        "apply_fixed_config": "tilewright.autotvm.task.dispatcher:ApplyFixedConfig",
        "apply_graph_best": "tilewright.autotvm.task.history:ApplyGraphBest",
        "apply_history_best": "tilewright.autotvm.task.history:ApplyHistoryBest",
    },
)
lazy.declare_modules("tilewright.autotvm")
__getattr__, __dir__ = lazy.late("tilewright.autotvm")

__all__ = [*lazy.names("tilewright.autotvm")]
