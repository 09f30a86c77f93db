"""Templates and their tasks; the spaces of their configurations; contexts that give configurations to templates."""

from tilewright.support import lazy

lazy.declare(
    "tilewright.autotvm.task",
    {
        f"{name}": f"tilewright.autotvm.task.{module}:{name}"
        for module, names in {
            "code_hash": "attach_code_hash attach_code_hash_to_arg",
            "dispatcher": "ApplyConfig ApplyFixedConfig DispatchContext FallbackContext clear_fallback_cache",
            "history": "ApplyGraphBest ApplyHistoryBest",
            "space": "ConfigEntity ConfigSpace",
            "task": "Task args_to_workload create deserialize_args get_config serialize_args template",
            "topi_integration": "TaskExtractEnv get_workload register_topi_compute register_topi_schedule",
        }.items()
        for name in names.split()
    },
)
lazy.declare_modules("tilewright.autotvm.task")
__getattr__, __dir__ = lazy.late("tilewright.autotvm.task")

__all__ = [*lazy.names("tilewright.autotvm.task")]
