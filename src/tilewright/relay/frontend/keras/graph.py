"""The walk over a Keras model: converts layers and nested models to relay, and reports all unsupported parts at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Var
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.module import module_of, string_attrs
from tilewright.relay.frontend.common.names import by_input, input_variable, plain_name, renamed
from tilewright.relay.frontend.common.sizes import InputSizes
from tilewright.relay.frontend.common.unsupported import DAMAGE, Problem, UnsupportedModel, finding_of
from tilewright.relay.frontend.common.value import StringTensor, Value, near_text, problems_text, use_text
from tilewright.relay.frontend.keras.layers_strings import STRING_LAYERS
from tilewright.relay.frontend.keras.value import LayerCall, Nested, flat_values, layers, operations, policy_dtype
from tilewright.relay.frontend.keras.weights import Spec, Store, name_of
from tilewright.relay.transform.layout.convert_layout import ConvertLayout
from tilewright.relay.transform.simplify.canonical import SimplifyExprPostAlterOp
from tilewright.runtime.host_functions.strings import CARRIER
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented, TVMError, said
from tilewright.tir import PrimExpr, SizeVar

FUNCTIONAL = ("Functional", "Model")
MODELS = (*FUNCTIONAL, "Sequential")
PARTS = ("layer", "backward_layer", "cell", "cells", "layers")
"""Entries of a configuration that hold layers."""
CELLS = ("StackedRNNCells",)
PASS_MASKS = (
    "Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "Dense", "Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout",
    "AlphaDropout", "BatchNormalization", "LayerNormalization", "RMSNormalization", "Identity", "Add", "Average", "Maximum",
    "Minimum", "Multiply", "Subtract", "TimeDistributed", "EinsumDense", "MultiHeadAttention", "UnitNormalization", "Attention",
    "ActivityRegularization",
)  # fmt: skip
"""Layers that pass the masks of their inputs on to their outputs."""
NEVER = {
    "Lambda": "it runs Python code of the model's author, which a file does not describe. Use operations of keras.ops in the model instead"
}
"""Layers without a converter, with the reason."""
LAYOUTS = {"NCHW": 4, "NCDHW": 5, "NHWC": 0, "NDHWC": 0, "NWC": 0}
"""The layouts that `from_keras` takes -> the rank of inputs and outputs that become channels first."""
FLAT = "\0flat"


class KerasImporter:
    """One import of a Keras model."""

    def __init__(self, title: str, version: int) -> None:
        self.title, self.version = title, version
        self.sizes = InputSizes()
        self.params: dict[str, np.ndarray] = {}
        self.weights: dict[str, Var] = {}
        self.inputs: list[Var] = []
        self.problems: list[Problem] = []
        self.masks: dict[int, Value] = {}
        """The mask of valid steps of a value, by the value's id. `kept` holds the values, so their ids stay unique."""
        self.kept: list[Any] = []
        self.batch = SizeVar("batch", "int64")
        self.strings: list[str] = []
        """The names of inputs that hold strings."""

    def run(
        self,
        spec: Spec,
        store: Store,
        shapes: Mapping[str, Sequence[Any]],
        layout: str,
        tensors: Sequence[str] = (),
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports a serialised model. tensors: other names of its inputs."""
        self.check_supported(spec)
        turned = 0 if _channels_first(spec) else LAYOUTS[layout]
        first, last = (layout, f"N{layout[2:]}C") if turned else ("", "")
        given = model_inputs(spec)
        names = [n for n, _, _ in given]
        called = by_input(
            self.title,
            shapes,
            [(n, [t]) for n, t in zip_longest(names, tensors[: len(names)], fillvalue="")],
            numbered=True,
        )
        unknown = [n for n in shapes if n not in called]
        if unknown:
            raise ModelError(
                f"{self.title}: shape names {', '.join(map(repr, unknown))}, but the model's inputs are"
                f" {', '.join([f'{n!r} {tuple(s)}' for n, s, _ in given])}{near_text(unknown[0], names)}"
            )
        own = {name: plain_name(key) for key, name in called.items()}
        shapes = renamed(shapes, called)
        values = []
        for name, shape, dtype in given:
            front = bool(turned) and len(shape) == turned
            declared = [shape[0], shape[-1], *shape[1:-1]] if front else list(shape)
            is_string = dtype == "string"
            extents = self.extents(name, declared, shapes.get(name))
            var = input_variable(self.title, own.get(name, name), extents, CARRIER if is_string else dtype)
            self.inputs.append(var)
            self.sizes.homes.append(var)
            value = StringTensor(var, None, name) if is_string else Value(var, None, name)
            values.append(self.turn(value, name, first, last) if front and not is_string else value)
            self.strings += [var.name_hint] if is_string else []
        outputs = flat_values(self.model(spec, store, values, ""))
        self.finish()
        outputs = [
            self.turn(v, f"output{k}", last, first)
            if turned and v.ndim == turned and not isinstance(v, StringTensor)
            else v
            for k, v in enumerate(outputs)
        ]
        mod = self.module(outputs, output_names(spec, len(outputs)))
        if turned:
            wanted = {f"nn.conv{turned - 2}d{t}": [first, "default"] for t in ("", "_transpose")}
            mod = SimplifyExprPostAlterOp()(ConvertLayout(wanted)(mod))
        return mod, dict(self.params)

    def turn(self, x: Value, name: str, source: str, target: str) -> Value:
        """A value converted to another layout."""
        builder = Builder(name, self.sizes)
        return builder.call("layout_transform", x, src_layout=source, dst_layout=target)

    def extents(self, name: str, declared: Sequence[Any], given: Sequence[Any] | None) -> list[Any]:
        """An input's extents: given ones, declared ones, and symbols for dynamic ones. Raises ModelError if they differ."""
        if given is not None and len(given) != len(declared):
            raise ModelError(
                f"{self.title}: shape gives the input {name!r} {len(given)} extents, {tuple(given)}, but it has"
                f" {len(declared)}: {tuple(declared)}"
            )
        result: list[Any] = []
        for k, d in enumerate(declared):
            pin = given[k] if given is not None else None
            pin = None if pin is None or isinstance(pin, (int, np.integer)) and pin < 0 else pin
            if d is not None and isinstance(pin, (int, np.integer)) and int(pin) != d:
                raise ModelError(
                    f"{self.title}: shape gives axis {k} of the input {name!r} the extent {int(pin)}, but the model says {d}."
                    f" It takes {tuple(declared)}"
                )
            if isinstance(pin, (int, np.integer)) or d is not None:
                result.append(int(pin) if pin is not None else int(d))
            elif isinstance(pin, PrimExpr) and type(pin).__name__ != "Any":
                result.append(pin)
            else:
                result.append(self.batch if k == 0 else SizeVar(f"{name}_{k}", "int64"))
        return result

    def weight(self, path: str, array: np.ndarray) -> Value:
        """A weight as a parameter of main; integers become constants."""
        if array.dtype.kind in "iub":
            return Value(array=array, name=path)
        key = path.replace("/", ".")
        if key not in self.weights:
            self.weights[key] = Var(key, tensor_type(array.shape, array.dtype.name))
            self.params[key] = array
        return Value(self.weights[key], None, key)

    def note_stateful(self, path: str) -> None:
        """Records a layer that keeps its state between calls."""
        raise OpNotImplemented(
            "it is stateful: its state lives on between calls. Give initial_state, and take return_state"
        )

    # ---- checks of supported layers

    def check_supported(self, spec: Spec) -> None:
        """Reports every layer without a converter, including those of nested models."""
        missing: dict[str, list[str]] = {}
        own: set[str] = set()
        for inner in all_layers(spec):
            kind = str(inner.get("class_name", ""))
            if inner.get("registered_name") and not str(inner.get("module") or "").startswith("keras"):
                own.add(kind)
            known = operations if is_operation(inner) else layers
            if (kind not in MODELS and kind not in known) or kind in NEVER:
                title = f"keras.ops {kind}" if is_operation(inner) else kind
                missing.setdefault(title, []).append(name_of(inner) or kind)
        for title, names in sorted(missing.items()):
            known = operations if title.startswith("keras.ops ") else layers
            plain = title.removeprefix("keras.ops ")
            text = use_text(title, names, "layer")
            if title in NEVER:
                text += f": {NEVER[title]}"
            elif title in own and title == spec.get("class_name"):
                text += (
                    ": a model with a call() of its own, which no file describes. Make it a functional one:"
                    " x = keras.Input(...); keras.Model(x, model.call(x))"
                )
            elif title in own:
                text += ": a class of the model's author, whose call() no model describes. Use operations of keras.ops in its place"
            else:
                text += near_text(plain, sorted(known))
            self.problems.append(Problem(text, title, names))
        self.finish()

    def finish(self) -> None:
        """Raises the errors that were collected so far."""
        if self.problems:
            raise UnsupportedModel(problems_text(self.title, list(self.problems)), self.problems)

    # ---- models

    def model(self, spec: Spec, store: Store, inputs: Sequence[Nested], path: str) -> Nested:
        """The outputs of a model for these values."""
        config = spec.get("config")
        if isinstance(config, list):  # The first Sequential models were plain lists.
            config = {"layers": config}
        if not isinstance(config, Mapping) or not isinstance(config.get("layers"), (list, tuple)):
            raise ModelError(f"{self.title}: the model {path or name_of(spec)!r} has no list of layers")
        if spec.get("class_name") == "Sequential":
            return self.sequential(config, store, inputs, path)
        return self.functional(config, store, inputs, path)

    def layer(self, spec: Spec, store: Store, path: str) -> LayerCall:
        """The results of a serialised layer on the tensors that the model gives it."""
        name = name_of(spec)
        kind = str(spec.get("class_name", ""))
        config = spec.get("config") or {}
        if kind in MODELS:
            config = {FLAT: spec}
        elif is_operation(spec):
            kind = f"keras.ops.{kind}"
        return LayerCall(kind, config, store, f"{path}/{name}".removeprefix("/"), self, self.version)

    def sequential(self, config: Spec, store: Store, inputs: Sequence[Nested], path: str) -> Nested:
        specs = [s for s in config["layers"] if s.get("class_name") != "InputLayer"]
        stores = store.members(specs)
        result: Any = inputs[0] if len(inputs) == 1 else list(inputs)
        for spec, inner in zip(specs, stores, strict=True):
            result = self.call(self.layer(spec, inner, path), [result], {})
        return result

    def functional(self, config: Spec, store: Store, inputs: Sequence[Nested], path: str) -> Nested:
        specs = list(config["layers"])
        kept = [s for s in specs if not is_operation(s)]
        stores = dict(zip(map(id, kept), store.members(kept), strict=True))
        made: dict[tuple[str, int], list[Nested]] = {}
        first = _first_calls(config)
        for entry, value in zip(histories(config.get("input_layers")), inputs, strict=True):
            made[entry[0], entry[1]] = [value]
        waiting = []
        for spec in specs:
            layer = self.layer(spec, stores.get(id(spec), Store()), path)
            for k, node in enumerate(spec.get("inbound_nodes") or ()):
                waiting.append((name_of(spec), k + first.get(name_of(spec), 0), layer, *_arguments(node)))
        while waiting:
            left = []
            for name, k, layer, args, kwargs in waiting:
                if not all([(h[0], h[1]) in made for h in _needed([args, kwargs])]):
                    left.append((name, k, layer, args, kwargs))
                    continue
                found = self.call(layer, _bound(args, made), _bound(kwargs, made))
                made[name, k] = flat_values(found) if found is not _BROKEN else [_BROKEN] * 64
            if len(left) == len(waiting):
                raise ModelError(
                    f"{self.title}: the layer {left[0][0]!r} reads what no layer makes; the model's graph is damaged"
                )
            waiting = left
        return _picked(config.get("output_layers"), made, self.title)

    def call(self, layer: LayerCall, args: Sequence[Nested], kwargs: Mapping[str, Nested]) -> Nested:
        """The results of a layer. It collects unsupported parts."""
        if any([v is _BROKEN for v in _leaves([*args, *kwargs.values()])]):
            return _BROKEN
        try:
            return self.convert(layer, args, kwargs)
        except UnsupportedModel:
            raise
        except NotImplementedError as error:
            self.problems.append(Problem(f"{layer.kind} {layer.path!r}: {error}", layer.kind, [layer.path]))
            return _BROKEN
        except ModelError as error:
            raise ModelError(
                f"{self.title}: {error}" if not str(error).startswith(self.title) else str(error)
            ) from None
        except TVMError as error:
            raise DiagnosticError(
                f"{self.title}: {layer.kind} {layer.path!r}: {finding_of(error, layer.path)}"
            ) from None
        except DAMAGE as error:
            raise ModelError(
                f"{self.title}: {layer.kind} {layer.path!r} does not have the configuration, inputs or weights that such a layer"
                f" has ({said(error)})"
            ) from error

    def convert(self, layer: LayerCall, args: Sequence[Nested], kwargs: Mapping[str, Nested]) -> Nested:
        """The results of a layer, by its converter."""
        if FLAT in layer.config:
            result = self.model(layer.config[FLAT], layer.store, flat_values([*args]), layer.path)
            self.finish()
            return result
        kwargs = {k: v for k, v in kwargs.items() if k != "training" and not (k == "mask" and v is None)}
        if layer.kind not in STRING_LAYERS and any(
            [isinstance(v, StringTensor) for v in _leaves([*args, *kwargs.values()])]
        ):
            raise OpNotImplemented("its input is a tensor of strings, but it takes numbers")
        if layer.kind.startswith("keras.ops."):
            found = operations[layer.kind.removeprefix("keras.ops.")](layer, *args, **kwargs)
            return self.keep(found)
        converter = layers.get(layer.kind)
        if converter is None:
            raise OpNotImplemented(f"it holds a layer of the class {layer.kind}{near_text(layer.kind, sorted(layers))}")
        given = [self.cast(layer, a) for a in args]
        named = {k: self.cast(layer, v) for k, v in kwargs.items()}
        found = self.keep(converter(layer, *given, **named))
        if layer.kind in PASS_MASKS and isinstance(found, Value) and id(found) not in self.masks:
            mask = next((m for m in (self.masks.get(id(v)) for v in _leaves(list(args))) if m is not None), None)
            if mask is not None:
                self.masks[id(found)] = mask
        return found

    def keep(self, found: Nested) -> Nested:
        """A result, held until the import ends, since masks are found by ids of values."""
        self.kept.append(found)
        return found

    def cast(self, layer: LayerCall, x: Nested) -> Nested:
        """Floats converted to the type in which a layer computes."""
        if isinstance(x, Value):
            want = layer.compute_dtype
            if (
                not isinstance(x, StringTensor)
                and x.dtype != want
                and x.dtype.startswith(("float", "bfloat"))
                and want.startswith(("float", "bfloat"))
            ):
                out = layer.cast(x, want)
                if id(x) in self.masks:
                    self.masks[id(out)] = self.masks[id(x)]
                return self.keep(out)
            return x
        if isinstance(x, (list, tuple)):
            return [self.cast(layer, v) for v in x]
        return {k: self.cast(layer, v) for k, v in x.items()} if isinstance(x, dict) else x

    def module(self, outputs: Sequence[Value], names: Sequence[str]) -> IRModule:
        """The module with these outputs."""
        self.finish()
        if not outputs:
            raise ModelError(f"{self.title}: the model has no outputs")
        made = [n for n, v in zip(names, outputs, strict=True) if isinstance(v, StringTensor)]
        attrs = string_attrs(self.strings, made)
        params = [*self.inputs, *self.weights.values()]
        return module_of(self.title, params, [v.expr for v in outputs], names, attrs)


class _Broken:
    """The placeholder for the result of a layer with a reported error."""


_BROKEN: Any = _Broken()


# ---- serialised models


def is_operation(spec: Spec) -> bool:
    """Whether a serialised layer is an operation of keras.ops. In legacy files only layers have entries such as `trainable`."""
    if spec.get("module"):
        return ".ops" in str(spec["module"])
    config = spec.get("config")
    return (
        spec.get("class_name") in operations
        and isinstance(config, Mapping)
        and not {"trainable", "dtype", "batch_shape"} & set(config)
    )


def all_layers(spec: Any) -> Iterable[Spec]:
    """The serialised layers of a model, including those of nested models."""
    if isinstance(spec, (list, tuple)):
        for s in spec:
            yield from all_layers(s)
    elif isinstance(spec, Mapping) and "class_name" in spec:
        yield spec
        config = spec.get("config")
        if isinstance(config, list):
            yield from all_layers(config)
        elif isinstance(config, Mapping):
            for part in PARTS:
                yield from all_layers(config.get(part))


def _channels_first(spec: Spec) -> bool:
    """Whether the model's own data has channels first."""
    for inner in all_layers(spec):
        config = inner.get("config")
        if isinstance(config, Mapping) and config.get("data_format") == "channels_first":
            return True
    return False


def model_inputs(spec: Spec) -> list[tuple[str, list[Any], str]]:
    """(name, extents, dtype) of each input of a serialised model, in order. Raises ModelError."""
    config: Any = spec.get("config")
    config = {"layers": config} if isinstance(config, list) else config
    specs = {name_of(s): s for s in config["layers"]}
    if spec.get("class_name") == "Sequential":
        first = config["layers"][0] if config["layers"] else {}
        while first.get("class_name") in MODELS and not _input_shape(first):
            first = first["config"]["layers"][0]
        shape = (
            _input_shape(first)
            or config.get("build_input_shape")
            or (spec.get("build_config") or {}).get("input_shape")
        )
        if not shape:
            raise ModelError(
                "the Sequential model does not say the shape of its input: build it, or begin it with keras.Input"
            )
        name = name_of(first)
        name = name if first.get("class_name") == "InputLayer" else f"{name}_input"
        return [
            (
                name,
                list(shape),
                policy_dtype(first["config"].get("dtype")) if first.get("class_name") == "InputLayer" else "float32",
            )
        ]
    found = []
    for name, _, _ in histories(config.get("input_layers")):
        inner = specs.get(name)
        shape = _input_shape(inner) if inner is not None else None
        if inner is None or not shape:
            raise ModelError(f"the model's input {name!r} is not a layer with a shape; the file is damaged")
        found.append((name, list(shape), policy_dtype(inner["config"].get("dtype"))))
    return found


def _input_shape(spec: Spec) -> Any:
    config = spec.get("config") or {}
    if isinstance(config, Mapping):
        return config.get("batch_shape") or config.get("batch_input_shape")
    return None


def output_names(spec: Spec, count: int) -> list[str]:
    """A name for each output: its key, or the name of its layer."""
    config = spec.get("config")
    given = config.get("output_layers") if isinstance(config, Mapping) else None
    if isinstance(given, Mapping):
        keys = [k for k in given for _ in histories(given[k])]
        return keys if len(keys) == count else [f"output{k}" for k in range(count)]
    names = [h[0] for h in histories(given)]
    if len(names) != count or len(set(names)) != count:
        return [f"output{k}" for k in range(count)]
    return names


History = tuple[str, int, int]


def histories(entry: Any) -> list[History]:
    """The sources of tensors in any nesting: (layer, number of its call, index among its results)."""
    if _is_history(entry):
        return [(str(entry[0]), int(entry[1]), int(entry[2]))]
    if isinstance(entry, Mapping):
        return [h for v in entry.values() for h in histories(v)]
    if isinstance(entry, (list, tuple)):
        return [h for v in entry for h in histories(v)]
    return []


def _is_history(entry: Any) -> bool:
    return (
        isinstance(entry, (list, tuple))
        and len(entry) >= 3
        and isinstance(entry[0], str)
        and isinstance(entry[1], int)
        and isinstance(entry[2], int)
    )


def _first_calls(config: Spec) -> dict[str, int]:
    """Layer -> the number of its first call, if it is not 0: a nested functional model counts its calls after the call that built it."""
    last: dict[str, int] = {}
    counts = {name_of(s): len(s.get("inbound_nodes") or ()) for s in config["layers"]}
    nodes = [_arguments(node) for s in config["layers"] for node in s.get("inbound_nodes") or ()]
    for name, k, _ in [*_needed(nodes), *histories(config.get("output_layers"))]:
        last[name] = max(last.get(name, 0), k)
    return {name: k + 1 - counts[name] for name, k in last.items() if counts.get(name) and k >= counts[name]}


def _picked(entry: Nested, made: Mapping[tuple[str, int], list[Nested]], title: str) -> Nested:
    """The tensors of these sources, nested as the model nests them."""
    if _is_history(entry):
        try:
            return made[entry[0], entry[1]][entry[2]]
        except (KeyError, IndexError):
            raise ModelError(
                f"{title}: the output {entry[0]!r} is made by no layer; the model's graph is damaged"
            ) from None
    if isinstance(entry, Mapping):
        return {k: _picked(v, made, title) for k, v in entry.items()}
    return [_picked(v, made, title) for v in entry or ()]


class _Tensor:
    """A tensor to which an argument refers."""

    __slots__ = ("history",)

    def __init__(self, history: Sequence[Any]) -> None:
        self.history = (str(history[0]), int(history[1]), int(history[2]))


def _arguments(node: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, in Keras 3's form or as Keras 2's list of tensors."""
    if isinstance(node, Mapping):
        return _parsed(list(node.get("args", ()))), _parsed(dict(node.get("kwargs", {})))
    node = [node] if _is_history(node) else node
    if isinstance(node, Mapping):
        node = list(node.values())
    tensors = [_Tensor(t) for t in node]
    kwargs: dict[str, Any] = {}
    for t in node:
        kwargs.update(t[3] if len(t) > 3 and isinstance(t[3], Mapping) else {})
    return [tensors[0] if len(tensors) == 1 else tensors], {
        k: _Tensor(v)
        if _is_history(v)
        else [_Tensor(t) for t in v]
        if isinstance(v, list) and v and all(map(_is_history, v))
        else v
        for k, v in kwargs.items()
    }


def _parsed(x: Nested) -> Nested:
    """Serialised arguments converted to tensors, slices, types and plain values."""
    if isinstance(x, Mapping):
        kind, config = x.get("class_name"), x.get("config")
        if kind == "__keras_tensor__":
            return _Tensor(config["keras_history"])  # type: ignore[index]
        if kind == "__slice__":
            return slice(config.get("start"), config.get("stop"), config.get("step"))  # type: ignore[union-attr]
        if kind == "__numpy__" or kind == "__tensor__":
            return np.asarray(config["value"], config.get("dtype"))  # type: ignore[index,union-attr]
        if kind == "__ellipsis__":
            return Ellipsis
        if kind == "__tuple__":
            return tuple(_parsed(list(x.get("items", config or ()))))
        return {k: _parsed(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_parsed(v) for v in x]
    return x


def _needed(x: Nested) -> list[History]:
    return [leaf.history for leaf in _leaves(x) if isinstance(leaf, _Tensor)]


def _leaves(x: Nested) -> list[Any]:
    if isinstance(x, Mapping):
        return [leaf for v in x.values() for leaf in _leaves(v)]
    if isinstance(x, (list, tuple)):
        return [leaf for v in x for leaf in _leaves(v)]
    return [x]


def _bound(x: Nested, made: Mapping[tuple[str, int], list[Nested]]) -> Nested:
    if isinstance(x, _Tensor):
        return made[x.history[0], x.history[1]][x.history[2]]
    if isinstance(x, Mapping):
        return {k: _bound(v, made) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_bound(v, made) for v in x]
    return x
