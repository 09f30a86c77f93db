"""Operators that are described by text: what `tilewright tune --shapes` takes.

    conv2d(1x64x56x56, 64x64x3x3, strides=1, padding=1)
    relu(bias_add(conv2d(1x64x56x56, 64x64x3x3, padding=1), 64))
    dense(1x512:bfloat16, 1000x512:bfloat16, out_dtype=float32)

An argument is a tensor (its dimensions, and its element type if that is not float32), or another operator, whose kernel it is fused
into as in a model. What follows are attributes, by the names of relay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright import relay
from tilewright.ir import IRModule, TensorType
from tilewright.relay.cards.card import argument_names, cards, constructor, find_card, required_arguments, signature
from tilewright.relay.expr import Expr, Function, Tuple, TupleWrapper, Var, const
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError
from tilewright.support.near import did_you_mean

EXAMPLE = "conv2d(1x64x56x56, 64x64x3x3, padding=1)"
TOKEN = re.compile(
    r"""\s*(?:(?P<tensor>(?:\d+(?:x\d+)+|\d+|scalar)(?::[a-z]\w*)?(?=\s*[,)]|$))|(?P<name>[A-Za-z_][\w.]*)|(?P<sign>[(),=])|(?P<rest>\S))"""
)
WEIGHTS = ("weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "alpha")
"""Arguments that are constants, as they are in models."""
PER_CHANNEL = WEIGHTS[1:]
"""Those that have an element for each index of `axis`; they need not be given."""
TYPES = r"bool|bfloat16|float(?:16|32|64)|u?int(?:8|16|32|64)"
DEPTHWISE = re.compile(r"depthwise_(conv[123]d(?:_transpose)?)")


class Tensor(NamedTuple):
    """An argument that is a tensor. constant: whether it is known when the operator is compiled."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False


class Call(NamedTuple):
    """An operator with its arguments and attributes."""

    name: str
    args: tuple[Tensor | Call, ...]
    attrs: dict[str, Any]


class _Text:
    """A description, read from the left. Raises TVMError where it cannot be read, and says what was expected there."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fault(self, what: str) -> TVMError:
        shown = self.text[self.at :].strip()
        where = f"before {shown!r}" if shown else "at the end"
        return TVMError(
            f"--shapes {self.text!r}: {what} {where}; an operator is NAME(SHAPE, ..., ATTRIBUTE=VALUE, ...), such as {EXAMPLE}"
        )

    def peek(self) -> tuple[str, str]:
        """The kind of the next word, and the word; ("", "") at the end."""
        found = TOKEN.match(self.text, self.at)
        return (found.lastgroup or "", found[found.lastgroup or 0]) if found is not None else ("", "")

    def take(self) -> tuple[str, str]:
        """The next word."""
        found = TOKEN.match(self.text, self.at)
        if found is None:
            return "", ""
        self.at = found.end()
        return found.lastgroup or "", found[found.lastgroup or 0]

    def call(self) -> Call:
        kind, name = self.peek()
        if kind != "name":
            raise self.fault("there is no name of an operator")
        self.take()
        if self.peek()[1] != "(":
            raise self.fault(f"'(' is missing after {name}")
        self.take()
        args: list[Tensor | Call] = []
        attrs: dict[str, Any] = {}
        while self.peek()[1] != ")":
            kind, word = self.peek()
            if kind == "name" and re.match(r"\s*[\w.]+\s*=", self.text[self.at :]):
                self.take(), self.take()
                attrs[word] = self.value()
            elif attrs:
                raise self.fault("arguments stand before attributes, so ATTRIBUTE=VALUE is missing")
            elif kind == "tensor":
                args.append(tensor_of(self.take()[1]))
            elif kind == "name" and word == "const":
                self.take()
                if self.peek()[0] != "tensor":
                    raise self.fault("a shape is missing after const")
                args.append(tensor_of(self.take()[1])._replace(constant=True))
            elif kind == "name":
                args.append(self.call())
            else:
                raise self.fault("a shape such as 1x64x56x56, or ATTRIBUTE=VALUE, is missing")
            if self.peek()[1] == ",":
                self.take()
            elif self.peek()[1] != ")":
                raise self.fault("',' or ')' is missing")
        self.take()
        return Call(name, tuple(args), attrs)

    def value(self) -> Any:
        """The value of an attribute: up to the comma or bracket that ends it."""
        begin, depth = self.at, 0
        while self.at < len(self.text):
            letter = self.text[self.at]
            if depth == 0 and letter in ",)":
                break
            depth += (letter in "([") - (letter in ")]")
            self.at += 1
        word = self.text[begin : self.at].strip()
        if not word:
            raise self.fault("a value is missing")
        try:
            return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(word.lower(), word))
        except (ValueError, SyntaxError):
            return word


def tensor_of(text: str) -> Tensor:
    """`1x64x56x56`, `1x64:float16`, `scalar`. Raises TVMError for a type that there is not, and for no elements."""
    dims, _, dtype = text.partition(":")
    shape = () if dims == "scalar" else tuple([int(d) for d in dims.split("x")])
    if dtype and not re.fullmatch(TYPES, dtype):
        raise TVMError(
            f"--shapes: {text} has the element type {dtype!r}, but must have float32, bfloat16, float16, int8, uint8, ..."
        )
    if 0 in shape:
        raise TVMError(f"--shapes: {text} has no elements")
    return Tensor(shape, dtype or "float32")


def parse(text: str) -> Call:
    """The operator that a text describes. Raises TVMError for other text."""
    reading = _Text(text)
    call = reading.call()
    if reading.text[reading.at :].strip():
        raise reading.fault("there is more than an operator")
    return call


def module_of(texts: Sequence[str]) -> IRModule:
    """A module that computes each of the operators. Raises TVMError where one is unknown or refuses its arguments."""
    made, inputs = [], list[Var]()
    for text in texts:
        results = expression(parse(text), text, inputs)
        try:
            infer_module(IRModule.from_expr(Function(relay.analysis.free_vars(results), results)))
        except TVMError as error:
            raise TVMError(f"--shapes {text!r}: {error}") from error
        made.append(results)
    return infer_module(IRModule.from_expr(Function(inputs, made[0] if len(made) == 1 else Tuple(tuple(made)))))


def expression(call: Call, text: str, inputs: list[Var]) -> Expr:
    """The relay expression of an operator. inputs: gets the variables that stand for its tensors."""
    key, attrs = key_of(call.name, text), dict(call.attrs)
    names, many = argument_names(find_card(key))
    known = signature(find_card(key)).parameters
    for name in attrs:
        if name not in known or name in names:
            has = ", ".join([n for n in known if n not in names and n != "span"])
            raise TVMError(
                f"--shapes {text!r}: {key} has no attribute {name!r}; it has {has or 'none'}{did_you_mean(name, known)}"
            )
    given = [_argument(arg, names, i, key, text, inputs) for i, arg in enumerate(call.args)]
    if DEPTHWISE.fullmatch(call.name) and given:
        attrs.setdefault("groups", channels_of(call.args[0], attrs.get("data_layout", ""), text))
    axis = attrs.get("axis", known["axis"].default if "axis" in known else None)
    for name in names[len(given) :]:
        if name not in PER_CHANNEL or not isinstance(axis, int) or not given:
            break
        given.append(_constant(Tensor((_extent(given[0], axis, text),)), len(inputs) + len(given)))
    needed = required_arguments(find_card(key))
    if len(names) == 1 and len(given) > 1 and not many:
        # The argument of a concatenation is a tuple.
        given = [Tuple(tuple(given))]
    if len(given) < needed or (len(given) > len(names) and not many):
        takes = ", ".join(names)
        raise TVMError(f"--shapes {text!r}: {key} takes {takes}; {len(given)} of its arguments are given")
    try:
        found = _public(key)(*given, **attrs)
    except (TVMError, TypeError, ValueError) as error:
        raise TVMError(f"--shapes {text!r}: {error}") from error
    return found.astuple() if isinstance(found, TupleWrapper) else found


def key_of(name: str, text: str) -> str:
    """The key of an operator's card: `nn.conv2d` for conv2d. Raises TVMError for an unknown name."""
    plain = DEPTHWISE.sub(r"\1", name)
    known = cards()
    found = [key for key in (plain, f"nn.{plain}", f"image.{plain}", f"vision.{plain}", f"qnn.{plain}") if key in known]
    if not found:
        near = did_you_mean(plain, dict.fromkeys([k for key in known for k in (key, key.rpartition(".")[2])]))
        raise TVMError(f"--shapes {text!r}: there is no operator {name!r}; docs/operators.md lists all{near}")
    return found[0]


def channels_of(data: Tensor | Call, layout: str, text: str) -> int:
    """The channels of a depthwise convolution's data, which are its groups."""
    if not isinstance(data, Tensor):
        raise TVMError(
            f"--shapes {text!r}: the groups of a depthwise convolution of computed data are given by groups="
        )
    axis = layout.find("C") if layout else 1
    if len(data.shape) <= max(axis, 1):
        raise TVMError(
            f"--shapes {text!r}: the data of a convolution has an axis of channels, but its shape is {data.shape}"
        )
    return data.shape[axis]


def _argument(arg: Tensor | Call, names: Sequence[str], place: int, key: str, text: str, inputs: list[Var]) -> Expr:
    if isinstance(arg, Call):
        return expression(arg, text, inputs)
    name = names[min(place, len(names) - 1)] if names else "data"
    if arg.constant or name in WEIGHTS:
        return _constant(arg, len(inputs) + place)
    var = relay.var(f"x{len(inputs)}", shape=arg.shape, dtype=arg.dtype)
    inputs.append(var)
    return var


def _constant(tensor: Tensor, seed: int) -> Expr:
    """Random numbers, positive ones (they may be variances) that keep sums near 1."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 8, tensor.shape) if "int" in tensor.dtype else rng.random(tensor.shape) + 0.5
    return const(values, tensor.dtype)


def _extent(data: Expr, axis: int, text: str) -> int:
    found = infer_module(IRModule.from_expr(Function(relay.analysis.free_vars(data), data)))["main"].body.checked_type
    if not isinstance(found, TensorType) or not -len(found.shape) <= axis < len(found.shape):
        raise TVMError(f"--shapes {text!r}: there is no axis {axis} of {found}")
    return int(found.concrete_shape[axis])


def _public(key: str) -> Callable[..., Any]:
    """The constructor of relay's interface."""
    found: Any = relay
    for part in key.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else constructor(key)
