"""Roots of all expressions, operators and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from tilewright.ir.prim_expr import (
    BaseExpr as BaseExpr,
)
from tilewright.ir.prim_expr import (
    FloatImm as FloatImm,
)
from tilewright.ir.prim_expr import (
    IntImm as IntImm,
)
from tilewright.ir.prim_expr import (
    PrimExpr as PrimExpr,
)
from tilewright.ir.prim_expr import (
    PrimExprLike as PrimExprLike,
)
from tilewright.ir.prim_expr import (
    Range as Range,
)
from tilewright.ir.prim_expr import (
    as_prim_expr as as_prim_expr,
)
from tilewright.ir.prim_expr import (
    register_foreign_expr as register_foreign_expr,
)
from tilewright.ir.types import Type
from tilewright.node import register_converter
from tilewright.support.errors import UnknownOpError

_text_makers: list[Any] = []


def install_astext(make: Any) -> None:
    """Sets the function `make(node, show_meta_data, annotate)` by which `astext` prints expressions and modules."""
    _text_makers[:] = [make]


def text_of(node: Any, show_meta_data: bool, annotate: Any = None) -> str:
    """The text of an expression or a module, by the dialect that installed one, else its repr."""
    return str(_text_makers[0](node, show_meta_data, annotate)) if _text_makers else repr(node)


class RelayExpr(BaseExpr):
    """An expression of the graph dialects."""

    __slots__ = ("_checked_type",)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The expression as text; `show_meta_data` appends the values of constants, `annotate(call)` is a comment at each
        call."""
        return text_of(self, show_meta_data, annotate)

    @property
    def checked_type(self) -> Type:
        """The type that type inference found. Raises ValueError before it ran."""
        found: Type | None = getattr(self, "_checked_type", None)
        if found is None:
            raise ValueError(
                "the type checker has not populated the checked_type of this expression; run InferType first"
            )
        return found


class GlobalVar(RelayExpr, key="GlobalVar"):
    """The name of a function of a module."""

    name_hint: str

    def _derive(self) -> None:
        if not isinstance(self.name_hint, str):
            raise TypeError(f"the name of a GlobalVar must be a string, but is {self.name_hint!r}")

    def __call__(self, *args: Any) -> Any:
        return _call_global(self, args)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, GlobalVar) and self.name_hint == other.name_hint)

    def __hash__(self) -> int:
        return hash(self.name_hint)


_call_builders: list[Any] = []


def register_global_call(accepts: Any, build: Any) -> None:
    """How `gvar(*args)` becomes a call node, by dialect: the first whose `accepts(args)` holds builds it."""
    _call_builders.append((accepts, build))


def _call_global(gvar: GlobalVar, args: tuple[Any, ...]) -> Any:
    for accepts, build in _call_builders:
        if accepts(args):
            return build(gvar, args)
    raise TypeError(f"no dialect calls {gvar.name_hint} with arguments of types {[type(a).__name__ for a in args]}")


_operands: list[Callable[[str], Sequence[str]]] = []


def install_operands(find: Callable[[str], Sequence[str]]) -> None:
    """`find(name)` gives the names of an operator's arguments, none for one that it does not know."""
    _operands.append(find)


class Op(RelayExpr, key="Op"):
    """An operator or intrinsic, known by its name; one object per name."""

    name: str

    _known: ClassVar[dict[str, Op]] = {}
    _properties: ClassVar[dict[tuple[str, str], Any]] = {}
    _levels: ClassVar[dict[tuple[str, str], int]] = {}

    def __new__(cls, name: str) -> Self:
        return cls._known.get(name) or super().__new__(cls)  # type: ignore[return-value]

    def _derive(self) -> None:
        self._known[self.name] = self

    @classmethod
    def restore(cls, values: list[Any]) -> Self:
        return cls(*values)

    @staticmethod
    def get(op_name: str) -> Op:
        """The operator of that name. Raises UnknownOpError, an AttributeError, when none is registered."""
        name = op_name
        op = Op._known.get(name)
        if op is None:
            import difflib

            near = difflib.get_close_matches(name, Op._known, n=3)
            raise UnknownOpError(f"no operator is named {name!r}" + (f"; near it: {', '.join(near)}" if near else ""))
        return op

    @staticmethod
    def list_op_names() -> list[str]:
        return sorted(Op._known)

    def get_attr(self, attr_name: str) -> Any:
        return self._properties.get((self.name, attr_name))

    def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None:
        """Gives the operator a property, unless one of a higher level than `plevel` was registered; None takes it away."""
        key = (self.name, attr_name)
        if value is None:
            self.reset_attr(attr_name)
        elif plevel >= self._levels.get(key, 0):
            self._properties[key] = value

    # What programs that make operators say of them (relay.op.op.register).

    def add_type_rel(self, rel_name: str, type_rel_func: Any = None) -> None:
        """The type relation: `type_rel_func(types of the arguments, attrs)` to the result's type, or one known by name."""
        self.set_attr("TTypeRel", type_rel_func if type_rel_func is not None else rel_name)

    def add_argument(self, name: str, type: str, description: str = "") -> None:
        """An argument: its name, kind ("Tensor") and what it is."""
        self.set_attr("TArguments", (*self.arguments, (name, type, description)))

    def set_num_inputs(self, n: int) -> None:
        self.set_attr("num_inputs", n)

    def set_support_level(self, level: int) -> None:
        self.set_attr("support_level", level)

    def set_attrs_type_key(self, key: str) -> None:
        self.set_attr("attrs_type_key", key)

    @property
    def arguments(self) -> tuple[tuple[str, str, str], ...]:
        """(name, kind, what it is) of each argument."""
        added: tuple[tuple[str, str, str], ...] = self.get_attr("TArguments") or ()
        return added or tuple([(name, "Tensor", "") for find in _operands for name in find(self.name)])

    @property
    def description(self) -> str:
        return str(self.get_attr("description") or "")

    @property
    def num_inputs(self) -> int:
        """How many arguments it takes, a tuple being one; -1 where none has said it."""
        found = self.get_attr("num_inputs")
        return (len(self.arguments) or -1) if found is None else int(found)

    @property
    def support_level(self) -> int:
        return int(self.get_attr("support_level") or 10)

    def reset_attr(self, attr_name: str) -> None:
        """Forget an attribute."""
        self._properties.pop((self.name, attr_name), None)
        self._levels.pop((self.name, attr_name), None)

    def has_attr(self, attr_name: str) -> bool:
        return (self.name, attr_name) in self._properties

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)


class BaseFunc(RelayExpr):
    """Root of functions. `attrs` is a mapping; `with_attr` gives a copy."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """What is known of the function, by name; a field of the functions of all dialects."""
        return {}

    def with_attr(self, attr_key_or_dict: str | Mapping[str, Any], attr_value: Any = None) -> Self:
        attrs: Mapping[str, Any] = self.attrs
        new = {attr_key_or_dict: attr_value} if isinstance(attr_key_or_dict, str) else attr_key_or_dict
        return self.replace(attrs={**attrs, **new})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> Self:
        return self.with_attr(attr_map)

    def without_attr(self, attr_key: str) -> Self:
        attrs: Mapping[str, Any] = self.attrs
        return self.replace(attrs={k: v for k, v in attrs.items() if k != attr_key}) if attr_key in attrs else self


register_converter("BaseFunc", BaseFunc)
