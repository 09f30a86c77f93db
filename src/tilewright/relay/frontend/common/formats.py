"""Formats of model files: how each is recognised, looked at, imported, and run by its own framework.

A front end subclasses `ModelFormat` and registers one instance; the command line (import, compile, compare, ...) then takes its
files. Only `load` must be there. Nothing of a framework is imported before a method needs it.
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
from tilewright.node.leaves import numpy_dtype
from tilewright.relay import transform
from tilewright.relay.expr import Call, Constant
from tilewright.relay.functor import post_order
from tilewright.relay.parameters import bind
from tilewright.relay.printer import span_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import ModelError
from tilewright.tir import Any as AnyDim

Array = np.ndarray[Any, Any]
Results = tuple[list[Array], dict[str, list[Array]]]
"""A model's outputs in order, and nodes' results in order by the name of the node."""
Shapes = Mapping[str, Sequence[int]]
"""Extents to pin, by input name; `support.pinned.Pinned` where an element type is given too."""


class TensorInfo:
    """An input, output or weight: `name`, element type, and extents: numbers, or names (and "?") of dynamic ones; None where the file says
    nothing."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: Sequence[int | str] | None) -> None:
        self.name, self.dtype, self.shape = name, dtype, None if shape is None else list(shape)

    @property
    def dynamic_axes(self) -> list[int]:
        """The axes whose extent only a run knows."""
        return [k for k, d in enumerate(self.shape or ()) if not isinstance(d, int)]

    @property
    def bytes(self) -> int:
        """Its size; 0 where it is dynamic."""
        if self.shape is None or self.dynamic_axes or not self.dtype:
            return 0
        size = int(np.prod([int(d) for d in self.shape], dtype=object)) if self.shape else 1
        bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(self.dtype)
        if bits:
            return -(-size * bits // 8)
        try:
            return size * numpy_dtype(self.dtype).itemsize
        except TypeError:  # strings, say
            return 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"name": self.name, "dtype": self.dtype, "shape": self.shape}


class Survey:
    """Description of a model file. framework: "ONNX"; version: the writer and the opset, for people; operators: the
    names of the nodes of each operator, in the framework's words; inputs, outputs, parameters (weights)."""

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
    """A model in its framework's own runtime, which also tells what its nodes make.

    title: the runtime's name; nodes: those whose results can be had, by the name that the importer's spans give them, with their
    operators, in the order in which they run; rounding: by how much of their range integers of few bits may be apart, since the
    runtime rounds otherwise.
    """

    title: str
    rounding: float = 0.0
    nodes: Mapping[str, str]

    def run(self, inputs: Mapping[str, Array], nodes: Sequence[str] = ()) -> Results:
        """The model's outputs in order, and for each of these nodes its results in order."""
        raise ModelError(f"{type(self).__name__} cannot run models")


class ModelFormat:
    """One format of model files. name: how the command line calls it; title: how people do; suffixes: of its files; runtimes: what
    `reference` takes, the usual one first."""

    name: str
    title: str
    suffixes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()

    def takes(self, path: Path) -> bool:
        """Whether a file (or folder) is of this format."""
        return path.suffix.lower() in self.suffixes

    def load(self, path: Path, shapes: Shapes) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module and its parameters. Raises ModelError for a file that is wrong, OpNotImplemented for what is not supported."""
        raise ModelError(f"models of {self.title} cannot be imported")

    def load_fixed(
        self, path: Path, shapes: Shapes, values: Mapping[str, Array]
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """As `load`, with constants for these inputs, which then are none any more. Raises ModelError for one that the model has not, and
        for values that do not fit."""
        mod, params = self.load(path, shapes)
        return fixed(mod, list(params), values), params

    def place_of(self, path: Path, name: str) -> tuple[str, int] | None:
        """The node and the number of its result that a tensor's name in the file means; None for what is not a tensor's name."""
        return None

    def as_written(self, path: Path, shapes: Shapes) -> tuple[IRModule, dict[str, np.ndarray]] | None:
        """As `load`, each tensor laid out as the file's own, with which it is compared; None where those of `load` are."""
        return None

    def survey(self, path: Path, shapes: Shapes) -> Survey:
        """The description of a file, as far as it can be read even if the model cannot be imported. Default: the description that
        the imported module says, in relay's operators."""
        mod, params = self.load(path, shapes)
        return survey_of(self.title, mod, params)

    def reference(self, path: Path, runtime: str, shapes: Shapes) -> Reference:
        """The model in one of `runtimes`. Raises TVMError where that is not installed, or does not take it."""
        raise ModelError(f"no runtime of {self.title} is known to compare with")


_formats: list[ModelFormat] = []


def register_format(model_format: ModelFormat) -> ModelFormat:
    """Makes a format known; a later one of the same name takes the place of an earlier."""
    # In one order, whoever imported a front end first.
    _formats[:] = sorted([*[f for f in _formats if f.name != model_format.name], model_format], key=lambda f: f.title)
    return model_format


@functools.cache
def find_formats() -> None:
    """Let the front ends register theirs: each has them in a module of this name."""
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
    """The format of a file. Raises ModelError where none takes it."""
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
    """A module with constants for inputs of main, and what follows from them computed. params: parameters that are not inputs."""
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
    """A value in the type of the input that it fixes: numbers are converted where none changes by it. ModelError where it does not fit."""
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
    """The tensors of a type, tuples flattened; what is neither is left out."""
    if isinstance(t, TupleType):
        return [x for f in t.fields for x in tensors_of(f)]
    return [t] if isinstance(t, TensorType) else []


def type_info(name: str, t: TensorType) -> TensorInfo:
    """A tensor's type in words."""
    shape: list[int | str] = [
        d.value if isinstance(d, IntImm) else "?" if isinstance(d, AnyDim) else str(d) for d in t.shape
    ]
    return TensorInfo(name, str(t.dtype), shape)
