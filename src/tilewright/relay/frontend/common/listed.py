"""The walk over a model that lists its nodes in the order in which they run: named tensors, weights as parameters of the program, and one
error with all that is not supported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np

from tilewright.ir import IRModule, PrimExpr
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Var
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.module import module_of
from tilewright.relay.frontend.common.names import input_variable
from tilewright.relay.frontend.common.sizes import InputSizes
from tilewright.relay.frontend.common.unsupported import DAMAGE, Problem, UnsupportedModel, finding_of
from tilewright.relay.frontend.common.value import Value, as_values, missing_operator, near_text, problems_text
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented, TVMError, said
from tilewright.tir import SizeVar

Converter = Callable[..., Any]
"""f(node, *inputs) -> a value or several."""


class Converters(dict[str, Converter]):
    """Converters by the name of their operator."""

    def of(self, *names: str) -> Callable[[Converter], Converter]:
        """Decorator that registers the converter of operators."""

        def register(f: Converter) -> Converter:
            self.update(dict.fromkeys(names, f))
            return f

        return register


class ListedNode(Builder):
    """The node that is being converted: `kind`, its operator, and `home`, the import."""

    __slots__ = ("home", "kind")

    def __init__(self, kind: str, name: str, home: ListedImporter) -> None:
        super().__init__(name, home.sizes, home.params)
        self.kind, self.home = kind, home

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A weight of the node, as a parameter of the program."""
        return self.home.weight(f"{self.name}.{name}", array)


class ListedImporter:
    """One import. title: the model's name in messages; noun: what the framework calls a node."""

    noun = "node"

    def __init__(self, title: str, converters: Mapping[str, Converter]) -> None:
        self.title, self.converters = title, converters
        self.sizes = InputSizes()
        self.params: dict[str, np.ndarray] = {}
        self.weights: dict[str, Var] = {}
        self.inputs: list[Var] = []
        self.problems: list[Problem] = []
        self.values: dict[str, Any] = {}
        """Tensors by their names in the model; None for the result of a node with a reported error."""

    def input(self, name: str, declared: Sequence[Any] | None, given: Sequence[Any] | None, dtype: str) -> Value:
        """An input: its extents are the given ones, else the declared ones; those that neither knows (None, -1) are symbols."""
        var = input_variable(self.title, name, self.extents(name, declared, given), dtype)
        self.inputs.append(var)
        self.sizes.homes.append(var)
        value = self.values[name] = Value(var, None, name)
        return value

    def extents(self, name: str, declared: Sequence[Any] | None, given: Sequence[Any] | None) -> list[Any]:
        """The extents of an input. Raises ModelError if given and declared ones differ, or if there are none."""
        if declared is None and given is None:
            raise ModelError(
                f"{self.title}: the model does not say the shape of its input {name!r}. Give it: shape={{{name!r}: (...)}}"
            )
        known = [None] * len(given or ()) if declared is None else list(declared)
        if given is not None and len(given) != len(known):
            raise ModelError(
                f"{self.title}: shape gives the input {name!r} {len(given)} extents, {tuple(given)}, but it has {len(known)}:"
                f" {tuple(known)}"
            )
        found: list[Any] = []
        for k, d in enumerate(known):
            pin = given[k] if given is not None else None
            pin = None if pin is None or isinstance(pin, (int, np.integer)) and pin < 0 else pin
            fixed = None if d is None or d < 0 else int(d)
            if isinstance(pin, (int, np.integer)) and fixed is not None and int(pin) != fixed:
                raise ModelError(
                    f"{self.title}: shape gives axis {k} of the input {name!r} the extent {int(pin)}, but the model says {fixed}."
                    f" It takes {tuple(known)}"
                )
            if isinstance(pin, PrimExpr) and type(pin).__name__ != "Any":
                found.append(pin)
            elif pin is not None or fixed is not None:
                found.append(int(pin) if isinstance(pin, (int, np.integer)) else fixed)
            else:
                found.append(SizeVar(f"{name}_{k}", "int64"))
        return found

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A weight as a parameter of main; integers become constants."""
        if array.dtype.kind in "iub":
            return Value(array=array, name=name)
        if name not in self.weights:
            self.weights[name] = Var(name, tensor_type(array.shape, array.dtype.name))
            self.params[name] = array
        return Value(self.weights[name], None, name)

    def check_names(self, given: Iterable[str], names: Sequence[str]) -> None:
        """Raises ModelError for shapes of what is no input."""
        unknown = [n for n in given if n not in names]
        if unknown:
            raise ModelError(
                f"{self.title}: shape names {', '.join(map(repr, unknown))}, but the model's inputs are"
                f" {', '.join(map(repr, names)) or 'none'}{near_text(unknown[0], names)}"
            )

    def check_supported(self, uses: Mapping[str, Sequence[str]], reasons: Mapping[str, str] | None = None) -> None:
        """Reports all operators without a converter. uses: operator -> names of its nodes; reasons: why there is none."""
        for kind, names in uses.items():
            if kind not in self.converters:
                problem = missing_operator(kind, list(names), sorted(self.converters), self.noun)
                why = (reasons or {}).get(kind)
                self.problems.append(Problem(f"{problem}: {why}", kind, names) if why else problem)
        self.finish()

    def finish(self) -> None:
        """Raises the errors that were collected so far."""
        if self.problems:
            raise UnsupportedModel(problems_text(self.title, list(self.problems)), self.problems)

    def convert(self, node: ListedNode, inputs: Sequence[Any], outputs: Sequence[str]) -> None:
        """Converts a node, whose results get these names (those beyond the converter's results stay undefined). It collects what is
        not supported."""
        found = None if any([v is None for v in inputs]) else self.attempt(node, inputs)
        self.values.update(dict.fromkeys(outputs) if found is None else zip(outputs, as_values(found), strict=False))

    def attempt(self, node: ListedNode, inputs: Sequence[Any]) -> Any:
        """What the converter of a node makes; None if it is not supported, which is recorded."""
        where = f"{node.kind} {node.name!r}"
        try:
            converter = self.converters[node.kind]
            need_inputs(converter, len(inputs))
            found = converter(node, *inputs)
            for value in as_values(list(found.values()) if isinstance(found, Mapping) else found):
                if value.array is None:
                    value.type  # noqa: B018  (types that do not fit are this node's error)
            return found
        except NotImplementedError as error:
            self.problems.append(Problem(f"{where}: {error}", node.kind, [node.name]))
            return None
        except ModelError as error:
            raise ModelError(f"{self.title}: {where}: {error}") from None
        except TVMError as error:
            raise DiagnosticError(f"{self.title}: {where}: {finding_of(error, node.name)}") from None
        except DAMAGE as error:
            raise ModelError(
                f"{self.title}: {where} does not have the attributes, inputs or weights that its kind needs ({said(error)})"
            ) from error

    def read(self, name: str, reader: str) -> Any:
        """The tensor of a name that a node reads. Raises ModelError if no node before it makes it."""
        if name not in self.values:
            raise ModelError(
                f"{self.title}: {reader!r} reads {name!r}, which is neither an input nor a weight, and no {self.noun} before it makes it"
            )
        return self.values[name]

    def module(self, results: Sequence[Value], names: Sequence[str]) -> IRModule:
        """The module with these results."""
        self.finish()
        if not results:
            raise ModelError(f"{self.title}: the model has no outputs")
        params = [*self.inputs, *self.weights.values()]
        return module_of(self.title, params, [v.expr for v in results], names)


def need_inputs(converter: Converter, count: int) -> None:
    """Raises ModelError if a converter takes more inputs than a node has, or fewer."""
    after_node = list(signature(converter).parameters.values())[1:]
    places = [p for p in after_node if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(places) > count and places[count].default is Parameter.empty:
        raise ModelError(f"its input number {count + 1} ({places[count].name}) is missing")
    if count > len(places) and not any([p.kind is p.VAR_POSITIONAL for p in after_node]):
        raise ModelError(f"it has {count} inputs, but takes {len(places)}")


def refuse(what: str) -> OpNotImplemented:
    """The error for a form of an operator that is not supported."""
    return OpNotImplemented(what)
