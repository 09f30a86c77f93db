"""ONNX Runtime, its CPU provider."""

from __future__ import annotations

from benchmarks.peers import Job, Run


def load(job: Job) -> None:
    import onnxruntime  # noqa: F401


def prepare(job: Job) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(job.path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, job.inputs)
