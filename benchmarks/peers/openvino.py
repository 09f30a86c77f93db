"""OpenVINO's CPU plugin, its precision pinned: it would use bfloat16 by itself where the machine has it. Inputs are not copied for a run,
as ours are not; threads are bound to processors or not, as it does by default."""

from __future__ import annotations

from benchmarks.peers import Job, Run

HINTS = {"float32": "f32", "bfloat16": "bf16"}


def load(job: Job) -> None:
    import openvino  # noqa: F401


def prepare(job: Job) -> Run:
    import openvino

    core = openvino.Core()
    model = core.read_model(job.path)
    model.reshape({name: value.shape for name, value in job.inputs.items()})
    options = {
        "INFERENCE_NUM_THREADS": job.threads,
        "INFERENCE_PRECISION_HINT": HINTS[job.precision],
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    request = core.compile_model(model, "CPU", options).create_infer_request()
    return lambda: list(request.infer(job.inputs, share_inputs=True).values())
