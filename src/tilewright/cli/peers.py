"""The runtimes that `bench` measures as peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.cli.measuring import Contestant
from tilewright.cli.options import Build
from tilewright.cli.screen import noted
from tilewright.cli.tensors import Array
from tilewright.support.errors import said


def onnxruntime_peer(
    build: Build, inputs: Mapping[str, Array], threads: int | None, streams: int, fixed: bool
) -> Contestant | None:
    """ONNX Runtime on the same inputs; None if it is not installed or cannot do the same work. As with ours, inputs are bound before
    the runs, and outputs are not copied: they are written to the same memory each time (fixed), or to memory that the run allocates."""
    if build.model.suffix != ".onnx":
        return None
    if build.outputs or build.inputs_at or build.values:
        noted("ONNX Runtime is not measured, because it would run the whole model, with all its inputs")
        return None
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(str(build.model), options, providers=["CPUExecutionProvider"])
        bindings = [bound(session, inputs, fixed) for _ in range(streams)]
    except Exception as error:  # its classes share no base class
        noted(f"ONNX Runtime is not measured, because it refuses the model: {said(error)}")
        return None
    runs = [lambda b=b: session.run_with_iobinding(b) for b in bindings]
    return Contestant(f"ONNX Runtime {onnxruntime.__version__}", "fp32", runs)


def bound(session: Any, inputs: Mapping[str, Array], fixed: bool) -> Any:
    """A binding of a session's inputs and outputs, after one run; fixed: later runs write to the outputs of that run."""
    binding = session.io_binding()
    for name in [i.name for i in session.get_inputs()]:
        binding.bind_cpu_input(name, inputs[name])
    for output in session.get_outputs():
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    if fixed:
        for output, made in zip(session.get_outputs(), binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(output.name, made)
    return binding
