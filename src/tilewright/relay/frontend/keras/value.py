"""Context of converters: the layer or operation being converted, and the tables of converters by class name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.builder import Builder, Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.weights import Spec, Store

if TYPE_CHECKING:
    from tilewright.relay.frontend.keras.graph import KerasImporter

Nested = Any
"""Arguments and results of a layer: tensors, numbers and names, in lists and dictionaries as the model nests them."""
ArrayLike = Operand | np.ndarray | Sequence[Any]
"""Arguments of operations in place of tensors: also numbers, arrays and nested lists of numbers."""
Converter = Callable[..., Any]
Registered = TypeVar("Registered", bound=Converter)
layers: dict[str, Converter] = {}
"""Converters by class name of `keras.layers`: f(call, *arguments, **keywords), with the arguments of the layer's call."""
operations: dict[str, Converter] = {}
"""Converters by class name of `keras.ops`: f(call, *arguments, **keywords). call.config has the constructor's arguments."""


def keras_layer(*names: str) -> Callable[[Registered], Registered]:
    """Registers the converter of layers."""

    def register(f: Registered) -> Registered:
        layers.update(dict.fromkeys(names, f))
        return f

    return register


def keras_op(*names: str) -> Callable[[Registered], Registered]:
    """Registers the converter of operations."""

    def register(f: Registered) -> Registered:
        operations.update(dict.fromkeys(names, f))
        return f

    return register


class LayerCall(Builder):
    """The layer being converted: its configuration, its weights, and the importer of nested layers."""

    __slots__ = ("config", "home", "kind", "path", "store", "version")

    def __init__(self, kind: str, config: Spec, store: Store, path: str, home: KerasImporter, version: int = 3) -> None:
        super().__init__(path, home.sizes, home.params)
        self.kind, self.config, self.store, self.path, self.home, self.version = (
            kind,
            config,
            store,
            path,
            home,
            version,
        )

    def get(self, name: str, default: Any = None) -> Any:
        """An entry of the configuration, or the default."""
        found = self.config.get(name, default)
        return default if found is None else found

    def weights(self, *names: str) -> list[Value]:
        """The layer's own variables of these names, as parameters of the program."""
        return [
            self.cast(self.home.weight(f"{self.path}/{n}", array), self.compute_dtype)
            if array.dtype.kind in "fV"
            else self.home.weight(f"{self.path}/{n}", array)
            for n, array in zip(names, self.store.take(names), strict=True)
        ]

    def arrays(self, *names: str) -> list[np.ndarray]:
        """The layer's own variables of these names, as arrays."""
        return list(self.store.take(names))

    @property
    def compute_dtype(self) -> str:
        """The element type in which the layer computes."""
        return policy_dtype(self.config.get("dtype"))

    def inner(self, spec: Spec, attribute: str) -> LayerCall:
        """The layer in an attribute of this one, by its serialised form."""
        config = spec.get("config") or {}
        name = str(config.get("name") or attribute)
        return LayerCall(
            str(spec.get("class_name", "")),
            config,
            self.store.child(attribute, name),
            f"{self.path}/{name}",
            self.home,
            self.version,
        )

    def run(self, layer: LayerCall, *args: object, **kwargs: object) -> Any:
        """The results of a nested layer."""
        return self.home.convert(layer, args, kwargs)

    def mask(self, x: Any) -> Value | None:
        """The mask (batch, steps) of bool of the valid steps of x; None if all are valid."""
        return self.home.masks.get(id(x))

    def promote(self, *operands: Operand) -> list[Value]:
        """Operands as tensors of the type in which Keras computes. Numbers get the type of the tensors."""
        kinds = [x.dtype for x in operands if isinstance(x, Value)]
        dtype = kinds[0] if kinds else "float32"
        for other in kinds[1:]:
            dtype = wider(dtype, other)
        for x in operands:
            if isinstance(x, float) and numpy_dtype(dtype).kind in "iub":
                dtype = "float32"
            if isinstance(x, int) and not isinstance(x, bool) and dtype == "bool":
                dtype = "int32"
        return [self.cast(x, dtype) if isinstance(x, Value) else self.number(x, dtype) for x in operands]

    def floats(self, x: Value) -> Value:
        """x, with integers converted to float32."""
        return self.cast(x, "float32") if numpy_dtype(x.dtype).kind in "iub" else x

    def tensor(self, x: Any) -> Value:
        """A value, number or (nested) list of numbers as a tensor."""
        if isinstance(x, Value):
            return x
        array = np.asarray(x)
        return Value(array=array.astype({"f": "float32", "i": "int32"}.get(array.dtype.kind, array.dtype)))


def wider(a: str, b: str) -> str:
    """The type in which two types of operands are computed."""
    if a == b:
        return a
    rank = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2}
    x, y = numpy_dtype(a), numpy_dtype(b)
    p, q = rank.get(x.kind, 2), rank.get(y.kind, 2)
    if p != q:
        return a if p > q else b
    if {a, b} == {"bfloat16", "float16"}:
        return "float32"
    return np.promote_types(x, y).name if p < 2 else (a if x.itemsize >= y.itemsize else b)


def policy_dtype(policy: Any) -> str:
    """The element type in which a dtype policy computes."""
    if isinstance(policy, Mapping):
        policy = (policy.get("config") or {}).get("name", "float32")
    name = str(policy or "float32")
    return {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}.get(name, name)


def extents(value: Any, n: int) -> tuple[int, ...]:
    """A parameter as one number for each of n axes."""
    return tuple([int(v) for v in value]) if isinstance(value, Sequence) else (int(value),) * n


def axes_of(kind: str) -> int:
    """The number of spatial axes in a layer's name: 2 in "MaxPooling2D"."""
    return int(kind[-2])


def flat_values(x: Nested) -> list[Nested]:
    """The tensors of a nested result, with dictionaries in the order of their keys."""
    if isinstance(x, Mapping):
        return [v for k in sorted(x) for v in flat_values(x[k])]
    if isinstance(x, (list, tuple)):
        return [v for part in x for v in flat_values(part)]
    return [x]
