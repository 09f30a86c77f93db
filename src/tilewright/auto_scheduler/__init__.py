"""Schedules without templates (`tvm.auto_scheduler`): sketches that rules make from a computation, sampled, measured and evolved.

loops, steps, application    programs as lists of steps: their loops, their te schedules, their records
loop_state, compute_dag      states and computations, as scripts see them
layout                       layouts of parameters that follow the loops of a state
sketch_rules, sketch_facts   structures of programs, by rules
sampling, sketch_space       programs of a structure, as a space of the tuning engine
search_task, search_policy   what is tuned, and by which search
task_inputs                  values that tasks are measured with
measure, measure_programs, measure_places, measurer  measurements by the builders and runners of the engine
measure_calls, calls         single builds, measurements, and calls in threads and processes, under classic names
classic_log, measure_record  records of measurements
task_scheduler, ..._callbacks  tasks of a model: which of them the next round is for; reports of rounds
cost_model, feature          what scores programs; the engine's features
dispatcher                   programs of workloads, by records
relay_integration            what builds of models ask: programs of kernels
packed_weights               kernels whose weights are packed for their records
"""

from tilewright.support import lazy

lazy.declare(
    __name__,
    {
        name: f"{__name__}.{module}:{name}"
        for module, names in {
            "compute_dag": ("ComputeDAG", "LayoutRewriteOption"),
            "cost_model.cost_model": ("RandomModel",),
            "cost_model.xgb_model": ("XGBModel",),
            "dispatcher": ("ApplyHistoryBest", "DispatchContext"),
            "layout": ("get_shape_from_rewritten_layout",),
            "hardware": ("HardwareParams",),
            "measure": ("MeasureInput", "MeasureResult"),
            "measure_places": ("LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "RPCRunner"),
            "measure_record": ("RecordReader", "RecordToFile", "load_best_record", "load_records", "save_records"),
            "relay_integration": (
                "auto_schedule_topi",
                "extract_tasks",
                "is_auto_scheduler_enabled",
                "remove_index_check",
                "rewrite_compute_body",
                "rewrite_tensor_shape",
            ),
            "sampled_programs": ("ApplyHistoryBestOrSample",),
            "search_policy": ("EmptyPolicy", "PreloadCustomSketchRule", "PreloadMeasuredStates", "SketchPolicy"),
            "search_task": ("SearchTask", "TuningOptions", "auto_schedule", "create_task"),
            "task_inputs": ("register_task_input_check_func",),
            "task_scheduler": ("TaskScheduler",),
            "workload_registry": ("make_workload_key", "register_workload"),
        }.items()
        for name in names
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
