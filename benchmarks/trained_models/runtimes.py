"""The runtimes that models were made for, one function each: `prepare(path, threads)` answers the names and types of inputs, their shapes
where the file fixes them, and a function from inputs to outputs. What cannot run here raises Unavailable."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers import Unavailable

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]


class Prepared(NamedTuple):
    """A model in its own runtime."""

    title: str
    dtypes: dict[str, str]
    shapes: dict[str, list[int]]
    """Of inputs; dimensions that are dynamic are 1."""
    run: Callable[[Inputs], list[Array]]
    state: dict[str, Array] = {}
    """What variables hold at first, by the names that the importer gives them as inputs; outputs follow the model's own."""
    numbers: frozenset[str] = frozenset()
    """Inputs that are numbers to the model, whose values a build has from its first case."""
    keeps: bool = False
    """Whether a build may answer, after the outputs, with what the model keeps for its next run."""


def onnx_runtime(path: Path, threads: int) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    kinds = {"float": "float32", "double": "float64"}
    inner = {i.name: i.type.removeprefix("tensor(").removesuffix(")") for i in session.get_inputs()}
    shapes = {i.name: [d if isinstance(d, int) and d > 0 else 1 for d in i.shape] for i in session.get_inputs()}

    def run(inputs: Inputs) -> list[Array]:
        return [np.asarray(o) for o in session.run(None, inputs)]

    return Prepared("ONNX Runtime", {n: kinds.get(t, t) for n, t in inner.items()}, shapes, run)


def lite_rt(path: Path, threads: int) -> Prepared:
    from ai_edge_litert.interpreter import Interpreter

    from tilewright.relay.frontend.tflite import initial_variables

    interpreter: Any = Interpreter(str(path), num_threads=threads)
    operators = {o["op_name"] for o in interpreter._get_ops_details()}
    details = interpreter.get_input_details()
    places = {d["name"]: d["index"] for d in details}
    outputs = [d["index"] for d in interpreter.get_output_details()]
    allocated: list[Any] = [None]

    def run(inputs: Inputs) -> list[Array]:
        shapes = [inputs[n].shape for n in places]
        if allocated[0] != shapes:
            for name, place in places.items():
                interpreter.resize_tensor_input(place, inputs[name].shape)
            try:
                interpreter.allocate_tensors()
            except RuntimeError as error:
                # Custom operators, which only the package itself has kernels for.
                raise Unavailable(f"LiteRT refuses it: {error}") from None
            allocated[0] = shapes
        for name, place in places.items():
            interpreter.set_tensor(place, inputs[name])
        interpreter.invoke()
        return [interpreter.get_tensor(i) for i in outputs]

    return Prepared(
        "LiteRT",
        {d["name"]: np.dtype(d["dtype"]).name for d in details},
        {d["name"]: [int(k) for k in d["shape"]] for d in details},
        run,
        initial_variables(path) if "VAR_HANDLE" in operators else {},
    )


def torch_script(path: Path, threads: int) -> Prepared:
    import torch

    torch.set_num_threads(threads)
    module = torch.jit.load(str(path), map_location="cpu").eval()
    taken = [v for v in module.graph.inputs() if v.type().kind() != "ClassType"]
    kinds = {"int": "int64", "float": "float32"}
    dtypes = {v.debugName().rsplit(".", 1)[0]: kinds.get(str(v.type()), "float32") for v in taken}
    numbers = [str(v.type()) in kinds for v in taken]
    named = frozenset([n for n, plain in zip(dtypes, numbers, strict=True) if plain])

    def run(inputs: Inputs) -> list[Array]:
        values = [x.item() if plain else torch.from_numpy(x) for x, plain in zip(inputs.values(), numbers, strict=True)]
        # A module may keep a state; each run begins anew.
        if hasattr(module, "reset_states"):
            module.reset_states()
        with torch.inference_mode():
            found = module(*values)
        return [t.numpy() for t in (found if isinstance(found, (tuple, list)) else [found])]

    return Prepared("PyTorch", dtypes, {}, run, numbers=named, keeps=True)


def keras(path: Path, threads: int) -> Prepared:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras as framework
    import torch

    torch.set_num_threads(threads)
    model = framework.models.load_model(path, compile=False)

    def run(inputs: Inputs) -> list[Array]:
        with torch.no_grad():
            found = model(list(inputs.values()) if len(inputs) > 1 else next(iter(inputs.values())), training=False)
        return [framework.ops.convert_to_numpy(t) for t in (found if isinstance(found, (tuple, list)) else [found])]

    dtypes = {t.name: str(t.dtype) for t in model.inputs}
    return Prepared("Keras", dtypes, {t.name: [d or 1 for d in t.shape] for t in model.inputs}, run)


def tensor_flow(path: Path, threads: int) -> Prepared:
    try:
        import tensorflow
    except ImportError:
        raise Unavailable(
            "TensorFlow is not installed; make build/tensorflow/.done makes an environment with it"
        ) from None

    graph = tensorflow.Graph()
    one: Any = tensorflow.compat.v1
    session = one.Session(
        graph=graph,
        config=one.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1),
    )
    with graph.as_default():
        # As a graph: objects of an optimiser that the folder may hold, too, need the Keras that wrote them.
        signature = one.saved_model.load(session, ["serve"], str(path)).signature_def["serving_default"]
    taken = dict(sorted(signature.inputs.items()))
    wanted = [t.name for _, t in sorted(signature.outputs.items())]

    def run(inputs: Inputs) -> list[Array]:
        return list(session.run(wanted, {taken[n].name: x for n, x in inputs.items()}))

    return Prepared(
        "TensorFlow",
        {n: tensorflow.dtypes.as_dtype(t.dtype).name for n, t in taken.items()},
        {n: [max(d.size, 1) for d in t.tensor_shape.dim] for n, t in taken.items()},
        run,
    )


RUNTIMES = {
    ".onnx": onnx_runtime,
    ".tflite": lite_rt,
    ".jit": torch_script,
    ".h5": keras,
    ".hdf5": keras,
    ".keras": keras,
    "": tensor_flow,
}
"""By the suffix of the file; a SavedModel is a folder."""


def prepared(path: Path, threads: int) -> Prepared:
    """The model in its own runtime."""
    try:
        return RUNTIMES[path.suffix](path, threads)
    except (ImportError, RuntimeError, ValueError) as error:
        raise Unavailable(f"{path.name}: its own runtime refuses it: {error}") from None
