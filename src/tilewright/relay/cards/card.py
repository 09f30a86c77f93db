"""Operator cards: one class holds all there is to know of one graph operator.

    class softmax(OpCard, key="nn.softmax"):
        \"\"\"exp(x) normalised along `axis`.\"\"\"
        axis: int = -1
        fuse = OUT_ELEMWISE
        samples = [(((2, 5),), {}), (((3, 4, 7),), {"axis": 1})]
        def infer(self, x: TensorType) -> Type: return x
        def compute(self, x: te.Tensor) -> te.Tensor: return topi.nn.softmax(x, self.axis)
        def ref(self, x: np.ndarray) -> np.ndarray: ...

An instance is the attributes of one call: `Call(Op.get("nn.softmax"), (x,), softmax(axis=1))`.
Declaring the class is all: the constructor `relay.nn.softmax(x, axis=-1)` follows from it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

import numpy as np

from tilewright import te, topi
from tilewright.ir import Attrs, IntImm, Op, PrimExpr, Type
from tilewright.ir.expr import install_operands
from tilewright.ir.span import BaseSpan
from tilewright.node.base import NodeMeta
from tilewright.relay.expr import Call, Constant, Expr, ExprWithOp, Tuple, TupleWrapper, const, register_operators
from tilewright.support.errors import OpAttributeInvalid, OpAttributeRequired, OpError, OpNotImplemented
from tilewright.target import Target
from tilewright.tir import Any as AnyDim

ELEMWISE, BROADCAST, INJECTIVE, COMM_REDUCE, OUT_ELEMWISE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8
"""Fusion kinds (classic TOpPattern). ELEMWISE: output element i reads element i of every input. BROADCAST: the
same, but an input may be broadcast. INJECTIVE: each output element reads one element of each input (reshape,
transpose, slice, concatenate). COMM_REDUCE: a reduction along axes. OUT_ELEMWISE: heavy, with an epilogue fused
onto its output (conv2d, dense). TUPLE: only packs values. OPAQUE: never fused."""

Operand: TypeAlias = "Expr | TupleWrapper | np.ndarray | np.generic | float | Sequence[Operand]"
"""What stands for an expression where calls are made: numbers and arrays are constants, sequences are tuples."""

Made = ExprWithOp | TupleWrapper
"""What constructors of operators return: a TupleWrapper of several results."""

Draw = Callable[[np.random.Generator], np.ndarray]
"""A sample argument that is drawn."""

Sample = tuple[Sequence[Any], Mapping[str, Any]]
"""(inputs, attributes). An input is a shape (float32, normal), `(shape, dtype)`, an ndarray, a function of a NumPy
Generator to an ndarray, or a list of those for an argument that is a tuple."""


class TypeRuleError(OpError):
    """An error of an operator's type rule: the rule, what was found, and the index of the argument at fault."""

    def __init__(self, rule: str, finding: str, arg: int | None = None, remedy: str | None = None) -> None:
        super().__init__(f"{rule}, but {finding}" + (f". {remedy}" if remedy else ""))
        self.rule, self.finding, self.arg, self.remedy = rule, finding, arg, remedy


def need(holds: object, rule: str, finding: str, arg: int | None = None, remedy: str | None = None) -> None:
    """Raises TypeRuleError unless `holds`. rule: what must hold ("the axis must lie in [-2, 2)"). finding: what was found."""
    if not holds:
        raise TypeRuleError(rule, finding, arg, remedy)


class Indexed(NamedTuple):
    """An argument that holds indices: its number, the argument that it indexes, and the axes of that (None: all elements,
    flattened). A single axis applies to all indices. Several axes, or `rows`, apply to the rows of the first axis. below:
    negative indices count from the end. An item of a tuple argument is (number of the argument, number of the item)."""

    indices: int | tuple[int, int]
    data: int | tuple[int, int]
    axes: tuple[int, ...] | None
    rows: bool = False
    below: bool = True


@dataclass_transform(kw_only_default=True)
class CardMeta(NodeMeta):
    """The metaclass of cards, which registers every card that has a key."""

    def __init__(
        cls, name: str, bases: tuple[type, ...], ns: dict[str, Any], key: str | None = None, **kw: Any
    ) -> None:
        super().__init__(name, bases, ns, key, **kw)
        if key is not None:
            _cards[key] = cls  # type: ignore[assignment]
            cls.op = Op(key)


_cards: dict[str, type[OpCard]] = {}
_constructors: dict[str, Callable[..., ExprWithOp]] = {}


class OpCard(Attrs, metaclass=CardMeta):
    """The base of all cards. Override `infer`, `ref`, and `compute` (or `expand`); the rest has defaults."""

    op: ClassVar[Op]
    """The operator that calls name."""
    fuse: ClassVar[int] = OPAQUE
    """Fusion kind, one of the constants above."""
    samples: ClassVar[Sequence[Sample]] = ()
    """Calls that the card test runs."""
    tolerance: ClassVar[float] = 1e-5
    """Relative difference allowed between `compute` and `ref` on float32."""
    expand_in: ClassVar[str] = "SimplifyInference"
    """The pass that replaces the call by `expand`: "SimplifyInference" or "CanonicalizeOps"."""
    pure: ClassVar[bool] = True
    """False keeps equal calls apart and unused calls alive (random numbers, printing)."""

    def infer(self, *args: Any, **kwargs: Any) -> Type:
        """The result type from the types of the arguments: TensorType, or TupleType for a tuple argument. The names of the
        parameters are the names of the operator's arguments; one with a default is optional. Raises TypeRuleError (see `need`)."""
        raise OpNotImplemented(
            f"{self.type_key} has no type rule: its card {type(self).__name__} does not define infer()"
        )

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        """The types of the arguments, where unknown ones (None) are derived from the others and the attributes. For example, the
        type of a convolution's weights follows from channels and kernel_size."""
        return args

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """The result as te.Tensor, or a list of several, from te.Tensor arguments (a list for a tuple argument)."""
        raise OpNotImplemented(
            f"{self.type_key} has no compute. "
            + (
                f"Run relay.transform.{self.expand_in}() before compiling"
                if self.expands()
                else f"Its card {type(self).__name__} must define compute() or expand()"
            )
        )

    def ref(self, *args: Any, **kwargs: Any) -> Any:
        """The result in NumPy: arrays, and tuples of arrays for a tuple argument or several results. Must not modify its arguments."""
        raise OpNotImplemented(
            f"{self.type_key} has no NumPy reference: its card {type(self).__name__} does not define ref()"
        )

    def expand(self, *args: Any, **kwargs: Any) -> Expr:
        """The operator as an expression of other operators, from the argument expressions (their `checked_type` is known)."""
        raise OpNotImplemented(f"{self.type_key} has no expansion")

    def simplify(self, *args: Any, **kwargs: Any) -> Expr | None:
        """A simpler, equal expression for these argument expressions (types known), or None. SimplifyExpr calls it."""
        return None

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        """The arguments, of these types, that hold indices. An index out of bounds has a defined result, but is an error of the
        program, which `relay.transform.CheckBounds` reports."""
        return ()

    divisors: ClassVar[tuple[int, ...]] = ()
    """The arguments by which is divided: of integers, a zero among them is an error of the program, as with `indexed`."""

    first: ClassVar[tuple[str, ...]] = ()
    """Attributes that the constructor takes before the others, where these are declared by a base."""
    flat: ClassVar[bool] = False
    """Whether no adjoint flows back: comparisons, positions, rounding, what looks only at shapes."""

    @property
    def outputs(self) -> int:
        """Number of results; more than one makes the constructor return a TupleWrapper. An attribute of the class, unless the
        attributes of the call decide."""
        return 1

    @property
    def undifferentiable(self) -> str | None:
        """Why there is no gradient, and what to do, for an operator whose adjoint is not zero but has not been written. An attribute of
        the class, unless the attributes of the call decide."""
        return None

    def grad(self, *args: Any, **kwargs: Any) -> Sequence[Expr | None]:
        """The adjoints of the arguments, from (arguments..., result, adjoint of the result): expressions of known type, a Tuple for
        a tuple argument, None for an argument without one. Without this method, op/adjoint.py derives them."""
        raise OpNotImplemented(
            f"{self.type_key} has no gradient: its card {type(self).__name__} does not define grad()"
        )

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """How to run on blocked data. args: the layouts of the arguments ("NCHW16c"; None: plain). Returns None if the operator
        needs plain layouts. ELEMWISE and BROADCAST cards need no rule."""
        return None

    def schedule(self, outs: Sequence[te.Tensor], target: Target) -> te.Schedule | None:
        """The schedule of a kernel that has this call as its anchor, from the results of the kernel. None: the rules of the target
        schedule it."""
        return None

    @classmethod
    def make(cls, *args: Any, **kwargs: Any) -> Made:
        """The public constructor. Override it if the classic signature is not (arguments..., attributes...)."""
        return cls.construct(*args, **kwargs)

    @classmethod
    def construct(cls, *args: Any, **kwargs: Any) -> Call:
        """Makes a call of this operator from argument expressions, then attributes, by position or keyword."""
        names, variadic = argument_names(cls)
        span = kwargs.pop("span", None)
        count = len(args) if variadic else min(len(args), len(names))
        inputs: list[Any] = list(args[:count])
        if not variadic:
            for name in names[count:]:
                if kwargs.get(name) is None:
                    kwargs.pop(name, None)
                    break
                inputs.append(kwargs.pop(name))
        if len(inputs) < required_arguments(cls) and not variadic:
            raise TypeError(
                f"{cls.type_key} takes the arguments ({', '.join(names)}), but {names[len(inputs)]} was not given"
            )
        fields = attribute_fields(cls)
        rest = args[count:]
        if len(rest) > len(fields):
            raise TypeError(
                f"{cls.type_key} takes {len(names)} arguments and {len(fields)} attributes, but {len(args)} values were given"
            )
        attrs = {f.name: value for f, value in zip(fields, rest, strict=False)}
        for name, value in kwargs.items():
            if name in attrs:
                raise TypeError(f"{cls.type_key}: {name} was given twice")
            attrs[name] = value
        return cls.call(inputs, attrs, span)

    @classmethod
    def call(cls, inputs: Sequence[Operand], attrs: Mapping[str, Any], span: BaseSpan | None = None) -> Call:
        """Makes a call of this operator from argument expressions and attributes. Numbers and arrays become constants, sequences
        become tuples. If the operator has a `dyn` form that takes an attribute as an argument, this attribute can be an
        expression."""
        if cls in DYNAMIC:
            attrs = {name: known_elements(value) for name, value in attrs.items()}
            if any(map(has_expressions, attrs.values())):
                return DYNAMIC[cls](inputs, attrs, span)
        known = {f.name: f for f in cls._fields}
        clean = {}
        for name, value in attrs.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise OpAttributeInvalid(
                    f"{cls.type_key} has no attribute {name!r}; it has {', '.join(known) or 'none'}"
                    + (f". Did you mean {near[0]!r}?" if near else "")
                )
            clean[name] = _clean(cls.type_key, name, known[name].annotation, value)
        missing = [n for n, f in known.items() if f.required and n not in clean]
        if missing:
            raise OpAttributeRequired(f"{cls.type_key} needs the attribute {missing[0]!r}")
        return Call(cls.op, tuple(as_expr(x) for x in inputs), cls(**clean), (), span)

    @classmethod
    def expands(cls) -> bool:
        """Whether the card defines `expand`."""
        return cls.expand is not OpCard.expand


def of_topi(name: str) -> Callable[..., Any]:
    """The topi function of this name, which may have dots: "nn.relu"."""
    function: Callable[..., Any] = attrgetter(name)(topi)
    return function


def any_bytes(shape: tuple[int, ...], dtype: str = "int8") -> Draw:
    """A sample argument: random 8-bit integers."""
    low, high = (-128, 128) if dtype == "int8" else (0, 256)
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


class LayoutChoice:
    """The result of a layout rule: the card to use, the layout to which each argument is converted (None: plain), and the layout of
    the result."""

    __slots__ = ("args", "card", "result")

    def __init__(self, card: OpCard, args: Sequence[str | None], result: str | None) -> None:
        self.card, self.args, self.result = card, tuple(args), result


DYNAMIC: dict[type[OpCard], Callable[[Sequence[Operand], Mapping[str, Any], BaseSpan | None], Call]] = {}
"""Makers of calls of the operators that take attributes of others as arguments (op/data_dependent/dynamic.py), by those others. They take
the arguments and attributes of a call of the other."""


def known_elements(value: Any) -> Any:
    """The numbers of a constant; other values are returned unchanged."""
    if not isinstance(value, Constant):
        return value
    return value.value.tolist()


def has_expressions(value: Any) -> bool:
    """Whether a value is or contains an expression."""
    return isinstance(value, Expr) or isinstance(value, (list, tuple)) and any(map(has_expressions, value))


def cards() -> Mapping[str, type[OpCard]]:
    """Every card by its operator name."""
    return _cards


def find_card(key: str) -> type[OpCard]:
    """The card of an operator. Raises OpNotImplemented for an unknown name."""
    card = _cards.get(key)
    if card is None:
        raise OpNotImplemented(f"there is no operator {key!r} in relay")
    return card


def argument_names(cls: type[OpCard]) -> tuple[tuple[str, ...], bool]:
    """The names of the operator's arguments, and whether their number is variable."""
    cached = _arguments.get(cls)
    if cached is None:
        parameters = list(inspect.signature(cls.infer).parameters.values())[1:]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        least = sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
        cached = _arguments[cls] = (names, variadic, least)
    return cached[0], cached[1]


def _operand_names(key: str) -> tuple[str, ...]:
    card = _cards.get(key)
    names, variadic = argument_names(card) if card is not None else ((), False)
    return names or (("data",) if variadic else ())


install_operands(_operand_names)


def required_arguments(cls: type[OpCard]) -> int:
    """The number of arguments that a call must have."""
    argument_names(cls)
    return _arguments[cls][2]


_arguments: dict[type[OpCard], tuple[tuple[str, ...], bool, int]] = {}


def as_expr(value: Operand) -> Expr:
    """Converts numbers and arrays to constants, lists and tuples to relay Tuples; expressions are returned unchanged."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if isinstance(value, (list, tuple)):
        return Tuple(tuple(as_expr(v) for v in value))
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return const(value)
    raise TypeError(f"a relay expression was expected, but {type(value).__name__} was given: {value!r}")


def _scalar(annotation: str, value: Any) -> Any:
    if isinstance(value, IntImm):
        value = int(value.value)
    if (
        annotation in ("int", "float")
        and isinstance(value, PrimExpr)
        and not isinstance(value, AnyDim)
        and value.dtype.is_int
    ):
        # A size that is known when the program runs.
        return value
    if annotation == "int" and not isinstance(value, bool) and hasattr(value, "__index__"):
        number: int = value.__index__()
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError
        return number
    if annotation == "bool" and isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    if annotation == "float" and isinstance(value, (int, float, np.floating, np.integer)):
        return float(value)
    if annotation == "str" and isinstance(value, str):
        return str(value)
    raise TypeError


def _clean(op: str, name: str, annotation: str, value: Any) -> Any:
    """An attribute's value in its declared form: NumPy and IR integers become ints, one int a tuple where one is declared."""
    if value is None and "None" in annotation:
        return None
    base = annotation.removesuffix(" | None")
    try:
        if base in ("int", "bool", "float", "str"):
            return _scalar(base, value)
        if base.startswith("tuple[") and base.count("[") == 1:
            element = base[6:-1].split(",")[0].strip()
            if element in ("int", "float", "bool", "str"):
                if isinstance(value, str) or not hasattr(value, "__iter__"):
                    return (_scalar(element, value),)
                return tuple([_scalar(element, v) for v in value])
    except TypeError:
        raise OpAttributeInvalid(
            f"{op}: the attribute {name} is declared {annotation}, but {value!r} was given"
        ) from None
    except OverflowError:
        raise OpAttributeInvalid(
            f"{op}: integers of the attribute {name} have 64 bits, but {value!r} was given"
        ) from None
    return value


def constructor(key: str) -> Callable[..., ExprWithOp]:
    """The public function that makes calls of operator `key`, with its signature and docstring. For operators with several results
    see `several`."""
    found = _constructors.get(key)
    if found is not None:
        return found
    card = find_card(key)

    def function(*args: Any, **kwargs: Any) -> Any:
        made = card.make(*args, **kwargs)
        return results_of(made) if isinstance(made, Call) else made

    function.__name__ = function.__qualname__ = key.rpartition(".")[2]
    function.__doc__ = card.__doc__
    setattr(function, "__signature__", signature(card))  # noqa: B010
    _constructors[key] = function
    return function


def several(key: str) -> Callable[..., TupleWrapper]:
    """The `constructor` of an operator with several results."""
    made: Callable[..., Any] = constructor(key)
    return made


def results_of(call: Call) -> Made:
    """A call of an operator as its constructor returns it: of several results, a TupleWrapper."""
    count = call.attrs.outputs if isinstance(call.attrs, OpCard) else 1
    return TupleWrapper(call, count) if count > 1 else call


def attribute_fields(cls: type[OpCard]) -> list[Any]:
    """The attributes, in the order of the constructor's parameters."""
    fields = [f for f in cls._fields if f.name != "span"]
    return sorted(fields, key=lambda f: f.name not in cls.first) if cls.first else fields


def signature(card: type[OpCard]) -> inspect.Signature:
    """The constructor's signature: arguments, then attributes with their defaults."""
    own = inspect.signature(card.make)
    if card.make.__func__ is not OpCard.make.__func__:  # type: ignore[attr-defined]
        return own
    names, variadic = argument_names(card)
    least = required_arguments(card)
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(n, kind, default=inspect.Parameter.empty if i < least else None) for i, n in enumerate(names)
    ]
    if variadic:
        parameters.append(inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL))
        kind = inspect.Parameter.KEYWORD_ONLY
    seen_default = any(p.default is not inspect.Parameter.empty for p in parameters)
    for f in attribute_fields(card):
        default = f.default
        if f.required:
            # Python wants a default after the first one; a missing value is refused by name all the same.
            default = None if seen_default and kind is not inspect.Parameter.KEYWORD_ONLY else inspect.Parameter.empty
        seen_default = seen_default or default is not inspect.Parameter.empty
        parameters.append(inspect.Parameter(f.name, kind, default=default))
    return inspect.Signature(parameters)


def namespace(prefix: str) -> dict[str, Callable[..., Any]]:
    """The constructors of the operators directly below `prefix` ("" for relay, "nn" for relay.nn), by their short names."""
    found = {}
    for key in _cards:
        head, _, name = key.rpartition(".")
        if head == prefix:
            found[name] = constructor(key)
    return found


def _default_attrs(name: str) -> OpCard | None:
    """The attributes of a call that was given none: the operator's defaults; None if it has no operator card or needs some."""
    card = _cards.get(name)
    return card() if card is not None and not any([f.required for f in card._fields]) else None


register_operators(constructor, _default_attrs)
