"""Schedules without templates (`tvm.auto_scheduler`): sketches that rules make from a computation, sampled, measured and evolved.

loops, steps, application    programs as lists of steps: their loops, their te schedules, their records
loop_state, compute_dag      states and computations, as scripts see them
sketch_rules, sketch_facts   structures of programs, by rules
sampling, sketch_space       programs of a structure, as a space of the tuning engine
"""

from tilewright.support import lazy

lazy.declare(
    __name__,
    {
        name: f"{__name__}.{module}:{name}"
        for module, names in {
            "compute_dag": ("ComputeDAG",),
            "hardware": ("HardwareParams",),
            "workload_registry": ("make_workload_key", "register_workload"),
        }.items()
        for name in names
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
