"""Base of the importers of exported programs and TorchScript: relay calls, parameters, and unsupported parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import IRModule, PrimExpr
from tilewright.relay.cards.relations import Dim, tensor_type
from tilewright.relay.expr import Expr, Tuple, Var
from tilewright.relay.frontend.common.module import module_of
from tilewright.relay.frontend.common.unsupported import Problem, UnsupportedModel, finding_of
from tilewright.relay.frontend.common.value import Value, evaluate, missing_operator, problems_text, use_text
from tilewright.relay.frontend.pytorch import compatibility, ops
from tilewright.relay.frontend.pytorch.dtypes import tensor_array
from tilewright.relay.frontend.pytorch.sizes import Sizes
from tilewright.relay.frontend.pytorch.value import Argument, Complex, TorchCall, as_result, converters, find_converter
from tilewright.relay.size_rules import STATED, StatedRule, size_rules
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented, TVMError, said

if TYPE_CHECKING:
    import torch

LIMIT = 1 << 16
"""The largest number of elements that a call folded at import may read. FoldConstant folds the rest."""
UNSAID = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "copy"}
"""Arguments about the storage of a tensor, which are ignored."""
OWN = {"aten", "prims", "prim", "quantized", "quantized_decomposed", "torchvision", "torchao", "higher_order"}
"""Namespaces of the operators of PyTorch and its libraries."""
OF_OTHERS = (
    ": an operator that PyTorch does not have itself; say what it is: custom_convert_map={{'{name}': f}}, where f(inputs, input_types)"
    " makes relay's expression of what it returns"
)
Custom = Mapping[str, Callable[[list[Any], list[Any]], Any]]


def supported_operators() -> list[str]:
    """Names of the supported operators: "aten::add", or "aten::add.Scalar" for one overload."""
    return sorted([n if "::" in n else f"aten::{n}" for n in converters])


def plain_name(name: str) -> str:
    """The name of an input with characters that a parser of names accepts."""
    return name.replace(".", "_").replace("/", "_").replace(":", "_")


class Importer:
    """One import: its parameters by name, its inputs, and the unsupported parts found so far."""

    def __init__(self, title: str, default_dtype: str, custom: Custom | None, friendly: bool) -> None:
        self.title, self.default_dtype, self.friendly = title, default_dtype, friendly
        self.custom: Custom = dict(custom or {})
        self.params: dict[str, np.ndarray] = {}
        self.weights: dict[str, Var] = {}
        self.inputs: list[Var] = []
        self.problems: list[str] = []
        self.sizes = Sizes()
        self.rules: list[StatedRule] = []
        """The conditions of the program on its inputs' extents (see relay.size_rules)."""
        self.draws = 0
        self.hosted = 0
        self.keep_quantized = False
        """Whether int8 and uint8 weights become parameters instead of constants."""

    def known(self, name: str, overload: str) -> bool:
        """Whether there is a converter for an operator."""
        return self.custom_converter(name, overload) is not None or find_converter(name, overload) is not None

    def custom_converter(self, name: str, overload: str) -> Callable[[list[Any], list[Any]], Any] | None:
        """The caller's converter for "aten::add", "aten::add.Tensor" or "aten.add.Tensor"."""
        full = f"{name}.{overload or 'default'}"
        keys = (f"{name}.{overload}", name, full.replace("::", "."))
        return next((self.custom[k] for k in keys if k in self.custom), None)

    def name(self, name: str) -> str:
        """The name of a parameter of main."""
        return plain_name(name) if self.friendly else name

    def input(self, name: str, shape: Sequence[Dim], dtype: str) -> Value:
        """A new input of main."""
        var = Var(self.name(name), tensor_type(tuple(shape), dtype))
        self.inputs.append(var)
        self.sizes.homes.append(var)
        return Value(var, None, name)

    def weight(self, name: str, tensor: torch.Tensor, written: bool = False) -> Value | Complex:
        """A parameter of main, or a constant: see `real_weight`. A complex weight is two parameters, its parts."""
        array = tensor_array(tensor)
        if array.dtype.kind == "c":
            parts = (("real", array.real), ("imag", array.imag))
            return Complex(*[self.parameter(f"{name}.{part}", np.ascontiguousarray(a)) for part, a in parts])
        return self.real_weight(name, array, written)

    def real_weight(self, name: str, array: np.ndarray, written: bool = False) -> Value:
        """A parameter of main, or a constant. Integers that the model does not write become constants: most are tables of indices, which
        converters read at import."""
        if (
            not written
            and array.dtype.kind in "iub"
            and not (self.keep_quantized and array.dtype in (np.int8, np.uint8))
        ):
            compatibility.TABLES.seen(name)
            return Value(array=array, name=name)
        return self.parameter(name, array)

    def parameter(self, name: str, array: np.ndarray) -> Value:
        """A parameter of main with this value."""
        key = self.name(name)
        if key not in self.weights:
            self.weights[key] = Var(key, tensor_type(array.shape, array.dtype.name))
            self.params[key] = array
        return Value(self.weights[key], None, name)

    def convert(
        self, name: str, overload: str, title: str, schema: torch.FunctionSchema, args: Sequence[Argument], kwargs: Mapping[str, Argument],
        used: Callable[[int], bool] = lambda k: True,
    ) -> Any:  # fmt: skip
        """The results of a call of an operator, such as "aten::add", with these arguments."""
        call = TorchCall(f"{name}.{overload or 'default'}", title, self, used)
        positional, named = arranged(schema, args, kwargs)
        custom = self.custom_converter(name, overload)
        if custom is not None:
            given = [*positional, *named.values()]
            exprs = [_bare(a) for a in given]
            return as_result(custom(exprs, [a.dtype if isinstance(a, Value) else None for a in given]))
        converter = find_converter(name, overload)
        if converter is None:
            raise OpNotImplemented(f"{name} is supported on complex numbers only")
        leaves = _leaves([*positional, *named.values()])
        if any([isinstance(a, Complex) for a in leaves]):
            return as_result(ops.complex_numbers.convert_complex(call, name, overload, positional, named))
        if any([isinstance(a, ops.levels.Quantized) for a in leaves]) and not name.startswith("quantized"):
            return as_result(ops.levels.convert_quantized(call, name, overload, positional, named))
        result = as_result(converter(call, *positional, **named))
        values = [a for a in leaves if isinstance(a, Value)]
        if name.startswith("quantized") or any([isinstance(a, PrimExpr) for a in leaves]):
            return result
        if values and all([v.array is not None and v.is_number and v.array.size <= LIMIT for v in values]):
            return _evaluated(result)
        return result

    def missing(self, uses: Mapping[str, list[str]]) -> None:
        """Reports operators without a converter, with their uses; raises if there are any."""
        names = list(dict.fromkeys([n.partition(".")[0] for n in supported_operators()]))
        for name, places in sorted(uses.items()):
            if name.partition("::")[0] in OWN:
                self.problems.append(missing_operator(name, places, names))
            else:
                text = use_text(name, places) + OF_OTHERS.format(name=name.partition(".")[0])
                self.problems.append(Problem(text, name, places))
        self.finish()

    def finish(self) -> None:
        """Raises the errors that were collected so far."""
        if self.problems:
            raise UnsupportedModel(problems_text(self.title, self.problems), self.problems)

    def module(self, outputs: Sequence[Any], names: Sequence[str]) -> tuple[IRModule, dict[str, np.ndarray]]:
        """(the module with these outputs, the parameters' values)."""
        self.finish()
        fields = [self.output(o) for o in outputs]
        if not fields:
            raise ModelError(f"{self.title}: it has no outputs that are tensors")
        params = [*self.inputs, *self.weights.values()]
        try:
            size_rules([p.name_hint for p in params], [p.type_annotation for p in params], self.rules)
        except TVMError as error:
            raise ModelError(f"{self.title}: {error}") from None
        attrs = {STATED: tuple(self.rules)} if self.rules else {}
        return module_of(self.title, params, fields, names, attrs), dict(self.params)

    def output(self, value: Any) -> Expr:
        """An output; numbers become tensors without axes."""
        if isinstance(value, Value):
            return value.expr
        if isinstance(value, (list, tuple)):
            return Tuple(tuple([self.output(v) for v in value]))
        if isinstance(value, Complex):
            raise OpNotImplemented(f"{self.title}: an output is complex: give torch.view_as_real of it")
        if isinstance(value, ops.levels.Quantized):
            raise OpNotImplemented(
                f"{self.title}: an output is quantised: dequantize it (torch.ao.quantization.DeQuantStub)"
            )
        return TorchCall("output", "output", self).tensor(value).expr

    def problem(self, title: str, error: Exception, operator: str = "") -> None:
        """Records an unsupported call, or raises the error if the import cannot continue."""
        if isinstance(error, NotImplementedError):
            self.problems.append(Problem(f"{title}: {error}", operator, [title]))
        elif isinstance(error, TVMError):
            raise DiagnosticError(f"{self.title}: {title}: {finding_of(error, title)}") from None
        else:
            raise ModelError(
                f"{self.title}: {title} does not have the arguments that its converter reads ({said(error)})"
            ) from error


def arranged(
    schema: torch.FunctionSchema, args: Sequence[Argument], kwargs: Mapping[str, Argument]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position (without trailing defaults of None) and by keyword, in the schema's order, without those of UNSAID."""
    if schema is None:
        return list(args), dict(kwargs)
    given = dict(zip([a.name for a in schema.arguments], args, strict=False)) | dict(kwargs)
    positional: list[Any] = []
    named: dict[str, Argument] = {}
    needed = 0
    for a in schema.arguments:
        if a.name in UNSAID or a.is_out:
            continue
        value = given.get(a.name, a.default_value)
        if a.kwarg_only:
            if value is not None:
                named[a.name] = value
        else:
            positional.append(value)
            if a.name in given or not a.has_default_value() or value is not None:
                needed = len(positional)
    del positional[needed:]
    return positional, named


def _bare(a: Any) -> Any:
    if isinstance(a, Value):
        return a.expr
    return [_bare(x) for x in a] if isinstance(a, (list, tuple)) else a


def _leaves(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in _leaves(part)]
    return [x]


def _evaluated(result: Any) -> Any:
    if isinstance(result, Value):
        return evaluate(result)
    return [_evaluated(r) for r in result] if isinstance(result, list) else result
