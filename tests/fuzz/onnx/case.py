"""A random ONNX model under construction, and its comparison with the reference: ONNX Runtime, or ONNX's own evaluator."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

NO_REFERENCE = "no reference"
DTYPES = {"float32": 1e-4, "float64": 1e-6, "float16": 1e-2}
"""Tolerances, relative to the largest magnitude in the output."""


class Draw:
    """Random choices of one seed, and the graph that they make."""

    def __init__(self, seed: int, opset: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset if opset is not None else self.pick([13, 14, 17, 18, 20, 21])
        self.nodes: list[Any] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.ir_version = 10
        self.count = 0

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of the choices."""
        return choices[int(self.rng.integers(0, len(choices)))]

    def int(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def maybe(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def extent(self) -> int:
        """An extent that seldom fills a vector."""
        return int(self.pick([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33]))

    def channels(self) -> int:
        return int(self.pick([1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 48]))

    def shape(self, rank: int, most: int = 4096) -> list[int]:
        """Extents with a bounded product."""
        result: list[int] = []
        for _ in range(rank):
            result.append(min(self.extent(), max(1, most // max(1, int(np.prod(result))))))
        return result

    def array(self, shape: Sequence[int], dtype: str = "float32", low: float = -2.0, high: float = 2.0) -> np.ndarray:
        """Uniform values; integers from the integers between the bounds."""
        kind = np.dtype(dtype).kind
        if kind == "b":
            return np.asarray(self.rng.random(tuple(shape)) < 0.5)
        if kind in "iu":
            least = max(int(low), 0) if kind == "u" else int(low)
            return np.asarray(self.rng.integers(least, int(high) + 1, tuple(shape))).astype(dtype)
        return np.asarray(self.rng.uniform(low, high, tuple(shape))).astype(dtype)

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def feed(self, value: np.ndarray, known: bool | None = None) -> str:
        """A tensor: an input of the model, or (`known`; None: by chance) a weight."""
        name = self.name()
        store = self.weights if (known if known is not None else self.maybe(0.3)) else self.inputs
        store[name] = np.asarray(value)
        return name

    def data(self, shape: Sequence[int], dtype: str = "float32", low: float = -2.0, high: float = 2.0) -> str:
        """An input of the model."""
        return self.feed(self.array(shape, dtype, low, high), known=False)

    def weight(self, shape: Sequence[int], dtype: str = "float32", scale: float = 0.5) -> str:
        return self.feed(self.array(shape, dtype, -scale, scale), known=True)

    def ints(self, values: Sequence[int], dtype: str = "int64") -> str:
        return self.feed(np.array(values, dtype), known=True)

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attrs: Any) -> Any:
        """Append a node; its output's name, or their names."""
        names = [self.name() for _ in range(outputs)]
        attrs = {k: v for k, v in attrs.items() if v is not None}
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{len(self.nodes)}", **attrs))
        return names[0] if outputs == 1 else names

    def model(self, outputs: Sequence[str] | None = None, nodes: Sequence[Any] | None = None) -> onnx.ModelProto:
        """The model; its outputs are by default what no node reads."""
        nodes = self.nodes if nodes is None else list(nodes)
        read = {i for n in nodes for i in n.input}
        made = [o for n in nodes for o in n.output if o]
        ends = list(outputs) if outputs is not None else [o for o in made if o not in read]
        if outputs is not None:
            nodes = needed(nodes, ends)
            read = {i for n in nodes for i in n.input}
        graph = helper.make_graph(
            nodes,
            "random",
            [
                helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for k, v in self.inputs.items()
                if k in read or outputs is None
            ],
            [onnx.ValueInfoProto(name=name) for name in ends],
            [numpy_helper.from_array(v, k) for k, v in self.weights.items() if k in read or outputs is None],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=self.ir_version)


def needed(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """The nodes that the outputs depend on, in order."""
    wanted, kept = set(outputs), []
    for n in reversed(nodes):
        if wanted & set(n.output):
            kept.append(n)
            wanted |= set(n.input)
    return kept[::-1]


@dataclass
class Way:
    """How a model is compiled and run."""

    opt_level: int = 3
    target: str = "llvm"
    config: dict[str, Any] = field(default_factory=dict)


TARGETS = ("llvm", "llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2", "llvm -mcpu=generic")


def way_of(seed: int) -> Way:
    """The optimization level and target of a seed: all pairs come in turn."""
    return Way(opt_level=(3, 2, 1, 0)[seed % 4], target=TARGETS[seed % len(TARGETS)])


def reference(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | str:
    """The outputs by ONNX Runtime, else by ONNX's evaluator; why there are none otherwise."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = {i.name: inputs[i.name] for i in model.graph.input}
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(v) for v in session.run(None, given)]
    except Exception as error:
        first = str(error)
    if not any(word in first for word in ("NOT_IMPLEMENTED", "NotImplemented", "Could not find an implementation")):
        return first
    from onnx.reference import ReferenceEvaluator

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, given)]
    except Exception as error:
        return f"{first}; {type(error).__name__}: {error}"


def compile_and_run(model: onnx.ModelProto, inputs: dict[str, np.ndarray], way: Way) -> list[np.ndarray]:
    """The outputs by native code; what is not for just this machine runs from an exported library, if need be under QEMU."""
    from tests.emulated import machines
    from tilewright import relay, runtime
    from tilewright.ir.transform import PassContext
    from tilewright.target import Target

    mod, params = relay.frontend.from_onnx(model)
    with PassContext(opt_level=way.opt_level, config=way.config):
        library = relay.build(mod, way.target, params=params)
    if way.target == "llvm":
        return run(library, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / machines.library_name(way.target)
        library.export_library(path)
        if machines.emulator(Target(way.target)) is not None:
            return machines.run(path, {i.name: inputs[i.name] for i in model.graph.input}, way.target)
        return run(runtime.load_module(os.fspath(path)), inputs)


def run(library: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Two runs of an executor; the second must repeat the first."""
    from tilewright import runtime

    executor = library["default"](runtime.cpu(0))
    count = executor["get_num_inputs"]()
    names = [executor["get_input_name"](i) for i in range(count)]
    for name in names:
        executor["set_input"](name, runtime.array(np.asarray(inputs[name], order="C")))
    executor["run"]()
    outputs = range(executor["get_num_outputs"]())
    first = [executor["get_output"](i).numpy().copy() for i in outputs]
    executor["run"]()
    for i, value in enumerate(first):
        again = executor["get_output"](i).numpy()
        assert np.array_equal(again, value, equal_nan=value.dtype.kind == "f"), f"output {i} differs in a second run"
    return first


def compare(got: Sequence[np.ndarray], want: Sequence[np.ndarray], loosest: str = "float64") -> None:
    """Raises AssertionError at the first output that is not equal within its type's tolerance.

    loosest: the narrowest float type inside the model, whose rounding the outputs carry.
    """
    assert len(got) == len(want), f"{len(got)} outputs, expected {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        assert g.shape == w.shape, f"output {k} has shape {g.shape}, expected {w.shape}"
        assert g.dtype == w.dtype, f"output {k} has dtype {g.dtype}, expected {w.dtype}"
        if w.dtype.kind != "f":
            wrong = np.argwhere(g != w)
            assert not len(wrong), difference(k, g, w, tuple(wrong[0]), len(wrong))
            continue
        tolerance = max(DTYPES[w.dtype.name], DTYPES[loosest])
        finite = np.isfinite(w)
        scale = float(np.abs(w[finite].astype(np.float64)).max()) if finite.any() else 1.0
        with np.errstate(all="ignore"):
            error = np.abs(g.astype(np.float64) - w.astype(np.float64))
            same = (g == w) | (np.isnan(g) & np.isnan(w)) | (error <= tolerance * max(scale, 1e-6))
        wrong = np.argwhere(~same)
        assert not len(wrong), difference(k, g, w, tuple(wrong[0]), len(wrong))


def difference(k: int, got: np.ndarray, want: np.ndarray, at: tuple[int, ...], count: int) -> str:
    """What a wrong output is told by."""
    place = tuple(int(i) for i in at)
    return (
        f"output {k} {want.dtype}{list(want.shape)}: {count} of {want.size} elements are wrong,"
        f" the first at {list(place)}: {got[place]!r}, expected {want[place]!r}"
    )


def text_of(model: onnx.ModelProto) -> str:
    """A model in few lines: inputs and weights with types, then the nodes."""

    def tensor(name: str, dtype: int, shape: Sequence[int]) -> str:
        return f"{name}: {helper.tensor_dtype_to_np_dtype(dtype).name}{list(shape)}"

    lines = [f"opset {model.opset_import[0].version}"]
    for i in model.graph.input:
        t = i.type.tensor_type
        lines.append("input " + tensor(i.name, t.elem_type, [d.dim_value for d in t.shape.dim]))
    for w in model.graph.initializer:
        value = numpy_helper.to_array(w)
        lines.append(
            "weight " + tensor(w.name, w.data_type, w.dims) + (f" = {value.tolist()}" if value.size < 9 else "")
        )
    lines += [onnx.printer.to_text(n).strip() for n in model.graph.node]
    return "\n  ".join(lines)
