"""Operator cards, by subject. Importing this package registers all cards; the constructors are made from the cards.

To add operators, add a module in one of the folders, and import it below.
"""

from __future__ import annotations

import difflib
import sys
import types
from collections.abc import Callable
from typing import Any

from tilewright.ir import Op
from tilewright.relay.cards.card import OpCard, cards, constructor, find_card
from tilewright.relay.op import adjoint, contrib
from tilewright.relay.op import names as names
from tilewright.relay.op.arithmetic import (
    binary,
    contraction,
    elemwise,
    fast_math,
    numbers,
    ordering,
    randomness,
    reduction,
    signal,
    sparse,
)
from tilewright.relay.op.convolution import conv, conv_nd, packed_conv, paired_conv, phases, sampled
from tilewright.relay.op.data_dependent import counted, dynamic
from tilewright.relay.op.images import detection, regions_of_interest, resize, sampling
from tilewright.relay.op.layers import attention, loss, normalisation, padding, pool, products
from tilewright.relay.op.movement import arrange, create, indexing, like, repeating, reshaping, scatter, slicing, space
from tilewright.relay.op.program import (
    bounds,
    checks,
    compiler_regions,
    devices,
    host,
    manifest,
    marks,
    packed_layouts,
    templates,
)
from tilewright.relay.op.quantization import quantized, quantized_math, quantized_products
from tilewright.relay.op.registry import (
    register_alter_op_layout,
    register_convert_op_layout,
    register_fake_quantization_to_integer,
    register_legalize,
    register_mixed_precision_conversion,
    register_optional_fake_quantization_to_integer,
    register_qnn_canonicalize,
    register_qnn_legalize,
)
from tilewright.support import lazy

# The general adjoint, which adjoints of many operators use.
adjoint.vjp.samples = [
    (((2, 5), (2, 5)), {"card": normalisation.softmax()}),
    (((2, 3), (4, 3), (2, 4)), {"card": products.dense(), "wrt": 1}),
]

__all__ = [
    "OpCard",
    "cards",
    "constructor",
    "find_card",
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_optional_fake_quantization_to_integer",
    "register_qnn_canonicalize",
    "register_qnn_legalize",
]


class Namespace(types.ModuleType):
    """The constructors of the operators with one prefix: `relay.nn.softmax` makes calls of "nn.softmax"."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"{__name__}.{prefix}", f"Constructors of the {prefix} operators.")
        self._prefix = prefix
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        key = f"{self._prefix}.{name}"
        if any(k.startswith(f"{key}.") for k in cards()):
            inner = Namespace(key)
            setattr(self, name, inner)
            return inner
        return lookup(key)

    def __dir__(self) -> list[str]:
        known = [*cards(), *names.FUNCTIONS, *names.ALIASES]
        inner = {k.removeprefix(f"{self._prefix}.").split(".")[0] for k in known if k.startswith(f"{self._prefix}.")}
        return sorted(inner | {name for name in vars(self) if not name.startswith("_")})

    @property
    def __all__(self) -> list[str]:
        return dir(self)


def get(op_name: str) -> Op:
    """The Op with this name, which calls refer to. Raises AttributeError for an unknown name."""
    return Op.get(op_name)


def lookup(key: str) -> Callable[..., Any]:
    """The constructor of an operator. Raises AttributeError, with the nearest names, for an unknown name."""
    if key in names.FUNCTIONS:
        return names.FUNCTIONS[key]
    key = names.ALIASES.get(key, key)
    if key not in cards():
        near = difflib.get_close_matches(key, [*cards(), *names.FUNCTIONS, *names.ALIASES], n=3)
        raise AttributeError(f"relay has no operator {key!r}" + (f"; near it: {', '.join(near)}" if near else ""))
    return constructor(key)


nn, image, vision, random, dyn, qnn = (Namespace(p) for p in ("nn", "image", "vision", "random", "dyn", "qnn"))
annotation = Namespace("annotation")
# Operators whose classic names have no prefix
vars(annotation).update(on_device=constructor("on_device"), function_on_device=devices.function_on_device)


# Operators of programs, and extensions of existing operators. This module needs the compiler.
_REGISTERING = (
    "OpImplementation", "OpPattern", "OpSpecialization", "OpStrategy", "register", "register_broadcast_schedule", "register_compute",
    "register_external_compiler", "register_gradient", "register_infer_correct_layout", "register_injective_schedule",
    "register_op_attr", "register_pattern", "register_reduce_schedule", "register_schedule", "register_shape_func",
    "register_stateful", "register_strategy", "copy_shape_func",
)  # fmt: skip
lazy.declare(__name__, {name: f"tilewright.relay.op.op:{name}" for name in _REGISTERING})
lazy.faces(__name__, {name: held.split() for name, held in names.MODULES.items()})
lazy.declare_modules(__name__)
# Constructors are also attributes of this module: op.add, op.reshape, ...
__getattr__, __dir__ = lazy.late(__name__, otherwise=lookup)
# Programs also import from these modules: `from tvm.relay.op.nn import conv2d`.
for _inner in (nn, image, vision, random, dyn, qnn, annotation):
    sys.modules[f"{__name__}.{_inner._prefix}"] = _inner
    lazy.faces(
        _inner.__name__, {module: held.split() for module, held in names.INNER_MODULES.get(_inner._prefix, {}).items()}
    )
