"""Formats of model files: recognising a file, describing it, importing it, and running it in its own framework.

A front end subclasses `ModelFormat` and registers one instance. The command line (import, compile, compare, ...) then takes its
files. Only `load` is required. A framework is imported only when a method needs it.
"""

from __future__ import annotations

import functools
import importlib.util
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir import IntImm, IRModule, TensorType, TupleType, Type
from tilewright.node.field_values import numpy_dtype
from tilewright.relay import transform
from tilewright.relay.expr import Call, Constant
from tilewright.relay.functor import post_order
from tilewright.relay.parameters import bind
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import ModelError
from tilewright.tir import Any as AnyDim

Array = np.ndarray[Any, Any]
Results = tuple[list[Array], dict[str, list[Array]]]
"""A model's outputs in order, and node name -> the node's results in order."""
Shapes = Mapping[str, Sequence[int]]
"""Extents to pin, by input name. A `support.pinned.Pinned` also gives an element type."""


class TensorInfo:
    """An input, output or weight: `name`, element type, and extents: numbers, or names (or "?") of dynamic ones. None if the file
    does not give it."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: Sequence[int | str] | None) -> None:
        self.name, self.dtype, self.shape = name, dtype, None if shape is None else list(shape)

    @property
    def dynamic_axes(self) -> list[int]:
        """The axes of dynamic extent."""
        return [k for k, d in enumerate(self.shape or ()) if not isinstance(d, int)]

    @property
    def bytes(self) -> int:
        """The size in bytes; 0 if an extent is dynamic."""
        if self.shape is None or self.dynamic_axes or not self.dtype:
            return 0
        size = int(np.prod([int(d) for d in self.shape], dtype=object)) if self.shape else 1
        bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(self.dtype)
        if bits:
            return -(-size * bits // 8)
        try:
            return size * numpy_dtype(self.dtype).itemsize
        except TypeError:  # elements without a fixed size, such as strings
            return 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values (dictionaries, lists, strings, numbers)."""
        return {"name": self.name, "dtype": self.dtype, "shape": self.shape}


class Survey:
    """Description of a model file. framework: "ONNX"; version: the writer and the opset, as text; operators: operator -> names of its
    nodes, with the framework's names; inputs, outputs, parameters (weights)."""

    __slots__ = ("framework", "inputs", "operators", "outputs", "parameters", "version")

    def __init__(
        self,
        framework: str,
        version: str,
        operators: Mapping[str, Sequence[str]],
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        parameters: Sequence[TensorInfo],
    ) -> None:
        self.framework, self.version = framework, version
        self.operators = {name: list(nodes) for name, nodes in operators.items()}
        self.inputs, self.outputs, self.parameters = list(inputs), list(outputs), list(parameters)


class Reference:
    """A model in its framework's own runtime, with access to the results of its nodes.

    title: the runtime's name. nodes: the nodes with accessible results, in the order of execution, with their operators. Their names
    are those of the importer's spans. rounding: the allowed difference of narrow integers, as a part of their range, for runtimes
    that round differently.
    """

    title: str
    rounding: float = 0.0
    nodes: Mapping[str, str]

    def run(self, inputs: Mapping[str, Array], nodes: Sequence[str] = ()) -> Results:
        """Outputs of the model in order, and for each of these nodes its results in order."""
        raise ModelError(f"{type(self).__name__} cannot run models")


class ModelFormat:
    """One format of model files. name: its name on the command line; title: its name in text; suffixes: of its files; runtimes: the
    choices for `reference`, with the default first."""

    name: str
    title: str
    suffixes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()

    def takes(self, path: Path) -> bool:
        """Whether a file (or folder) has this format."""
        return path.suffix.lower() in self.suffixes and not path.is_dir()

    def load(self, path: Path, shapes: Shapes) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module and its parameters. Raises ModelError for an invalid file, OpNotImplemented for unsupported parts."""
        raise ModelError(f"models of {self.title} cannot be imported")

    def load_fixed(
        self, path: Path, shapes: Shapes, values: Mapping[str, Array]
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Like `load`, with constants for the given inputs, which are then removed. Raises ModelError for an unknown input and for
        values that do not fit."""
        mod, params = self.load(path, shapes)
        return fixed(mod, list(params), values), params

    def place_of(self, path: Path, name: str) -> tuple[str, int] | None:
        """(node, index of its result) for the name of a tensor in the file; None for an unknown name."""
        return None

    def as_written(self, path: Path, shapes: Shapes) -> tuple[IRModule, dict[str, np.ndarray]] | None:
        """Like `load`, with each tensor in the layout of the file, for comparisons. None if `load` already keeps those layouts."""
        return None

    def survey(self, path: Path, shapes: Shapes) -> Survey:
        """The description of a file, as complete as possible even if the model cannot be imported. Default: the description of
        the imported module, with relay's operators."""
        mod, params = self.load(path, shapes)
        return survey_of(self.title, mod, params)

    def reference(self, path: Path, runtime: str, shapes: Shapes) -> Reference:
        """The model in one of `runtimes`. Raises TVMError if it is not installed or refuses the model."""
        raise ModelError(f"no runtime of {self.title} is known to compare with")


_formats: list[ModelFormat] = []


def register_format(model_format: ModelFormat) -> ModelFormat:
    """Registers a format. It replaces an earlier one of the same name."""
    # Sorted, so the order does not depend on which front end was imported first.
    _formats[:] = sorted([*[f for f in _formats if f.name != model_format.name], model_format], key=lambda f: f.title)
    return model_format


@functools.cache
def find_formats() -> None:
    """Imports the module of each front end that registers its format."""
    from tilewright.relay import frontend

    found = [p.name for p in pkgutil.iter_modules(frontend.__path__) if p.ispkg]
    for name in sorted(found):
        module = f"{frontend.__name__}.{name}.model_file"
        if importlib.util.find_spec(module):
            importlib.import_module(module)


def known_formats() -> list[ModelFormat]:
    """All formats, by title."""
    find_formats()
    return list(_formats)


def format_of(path: Path) -> ModelFormat:
    """The format of a file. Raises ModelError if no format takes it. Devices and pipes, which may have no end, are not read."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ModelError(f"{path} is a device or a pipe; give the path of a file")
    find_formats()
    for f in _formats:
        if f.takes(path):
            return f
    known = "; ".join([f"{f.title} ({', '.join(f.suffixes)})" for f in _formats])
    if path.is_dir():
        known = "folders of TensorFlow's with a saved_model.pb, and for files: " + known
    kind = "folder" if path.is_dir() else "file"
    raise ModelError(f"{path}: no importer takes this {kind}; there are importers for {known}")


def fixed(mod: IRModule, params: Sequence[str], values: Mapping[str, Array]) -> IRModule:
    """The module with constants for inputs of main, after constant folding. params: parameters that are not inputs."""
    main: Any = mod["main"]
    inputs = {p.name_hint: p for p in main.params if p.name_hint not in params}
    constants = {}
    for name, value in values.items():
        if name not in inputs:
            raise ModelError(f"the model has no input {name!r} to fix; its inputs are: {', '.join(inputs) or 'none'}")
        constants[name] = as_declared(name, value, inputs[name].checked_type)
    bound = mod.with_functions({mod.get_global_var("main"): bind(main, constants)})
    known: IRModule = transform.FoldConstant()(
        transform.DynamicToStatic()(transform.FoldConstant()(infer_module(bound)))
    )
    return known


def as_declared(name: str, value: Array, declared: Any) -> Array:
    """A value in the declared type of the input that it replaces. Numbers are converted if the conversion is exact.
    Raises ModelError if it does not fit."""
    shape = [d.value if isinstance(d, IntImm) else None for d in declared.shape]
    kind = numpy_dtype(str(declared.dtype))
    number = value.reshape([1] * len(shape)) if value.size == 1 and value.ndim < len(shape) else value
    fits = number.ndim == len(shape) and all([d in (None, n) for d, n in zip(shape, number.shape, strict=False)])
    made = number.astype(kind) if fits else number
    if not fits or (made.dtype.kind in "iub" and not np.array_equal(made.astype("float64"), number.astype("float64"))):
        wanted = "x".join(["?" if d is None else str(d) for d in shape]) or "scalar"
        raise ModelError(
            f"the value for the input {name!r}, {value.dtype.name} {'x'.join(map(str, value.shape)) or 'scalar'}, does not fit: it takes"
            f" {declared.dtype} {wanted}"
        )
    return made


def survey_of(framework: str, mod: IRModule, params: Mapping[str, Any]) -> Survey:
    """The description of an imported module."""
    main: Any = mod["main"]
    operators: dict[str, list[str]] = {}
    weights = [TensorInfo(n, *_shape_of(v)) for n, v in params.items()]
    for e in post_order(main.body):
        if isinstance(e, Call) and hasattr(e.op, "name"):
            operators.setdefault(e.op.name, []).append(span_text(e.span) or e.op.name)
        elif isinstance(e, Constant) and e.value.ndim:
            weights.append(TensorInfo(f"constant {len(weights)}", *_shape_of(e.value)))
    names = list((main.attrs or {}).get("output_tensor_names", ()))
    results = tensors_of(main.checked_type.ret_type)
    outputs = [type_info(names[k] if k < len(names) else f"output{k}", t) for k, t in enumerate(results)]
    inputs = [
        type_info(p.name_hint, t) for p in main.params if p.name_hint not in params for t in tensors_of(p.checked_type)
    ]
    return Survey(framework, "", operators, inputs, outputs, weights)


def _shape_of(value: Any) -> tuple[str, list[int]]:
    return str(value.dtype), [int(d) for d in value.shape]


def tensors_of(t: Type) -> list[TensorType]:
    """The tensors of a type, with tuples flattened. Other types are left out."""
    if isinstance(t, TupleType):
        return [x for f in t.fields for x in tensors_of(f)]
    return [t] if isinstance(t, TensorType) else []


def type_info(name: str, t: TensorType) -> TensorInfo:
    """A tensor's type in words."""
    shape: list[int | str] = [
        d.value if isinstance(d, IntImm) else "?" if isinstance(d, AnyDim) else str(d) for d in t.shape
    ]
    return TensorInfo(name, str(t.dtype), shape)
