"""The node declaration: annotated fields give slots, `__init__`, `replace` and the field table.

    class For(Stmt, key="tir.For"):
        loop_var: Def[Var]
        body: Stmt
        span: Skip[Span | None] = None

Everything generic (equality, hash, JSON, functors) is driven by `cls._fields`; nothing else is
written per node type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

from tilewright.support.errors import InternalError

T = TypeVar("T")


class _Marker:
    """Tag carried by an annotation; the metaclass reads the annotation's text, type checkers see T."""


Def = Annotated[T, _Marker()]
"""A field that binds variables: equality and hash map them, so that alpha-renamed programs agree."""
Skip = Annotated[T, _Marker()]
"""A field that is carried along, but is not part of equality, hash or JSON."""

PLAIN, DEF, SKIP = "plain", "def", "skip"

_MISSING = object()
_DERIVED = object()


def derived(*, init: Literal[False] = False) -> Any:
    """Default of a slot that `_derive` computes from the fields; it is not a parameter of `__init__`."""
    return _DERIVED


Converter = Callable[[Any, str], Any]
"""Takes a value of the wrong type and the place it was given for; returns a right one or raises TypeError."""

_BASES: dict[str, type] = {}
_converters: dict[str, Converter] = {}


def register_converter(annotation: str, base: type, convert: Converter | None = None) -> None:
    """Fields annotated exactly `annotation` take instances of `base`; all else goes through `convert`, or is refused.

    Call it before the first node type that uses the annotation is declared.
    """

    def refuse(value: Any, where: str) -> Any:
        raise TypeError(f"{where} must be a {annotation}, but was given {type(value).__name__}: {value!r}")

    _BASES[annotation] = base
    _converters[annotation] = convert or refuse


class Field:
    """One declared field of a node type."""

    __slots__ = ("annotation", "default", "kind", "name")

    def __init__(self, name: str, annotation: str, kind: str, default: Any) -> None:
        self.name, self.annotation, self.kind, self.default = name, annotation, kind, default

    @property
    def required(self) -> bool:
        return self.default is _MISSING

    def __repr__(self) -> str:
        return f"Field({self.name}: {self.kind} {self.annotation})"


def _parse_annotation(text: str) -> tuple[str, str]:
    """`Def[Var]` -> ("def", "Var"); `ClassVar[..]` -> ("class", ..)."""
    for prefix, kind in (("Def[", DEF), ("Skip[", SKIP), ("ClassVar[", "class")):
        if text.startswith(prefix):
            return kind, text[len(prefix) : -1]
    return PLAIN, text


def _conversion(cls_name: str, field: Field) -> str | None:
    """The statement of `__init__` that brings an argument into the field's declared form."""
    name, annotation = field.name, field.annotation
    where = f"{cls_name}.{name}"
    if annotation in _converters:
        return f"if not isinstance({name}, _B[{annotation!r}]): {name} = _C[{annotation!r}]({name}, {where!r})"
    optional = annotation.removesuffix(" | None")
    if optional != annotation and optional in _converters:
        return (
            f"if {name} is not None and not isinstance({name}, _B[{optional!r}]):"
            f" {name} = _C[{optional!r}]({name}, {where!r})"
        )
    if annotation.startswith("tuple[") and annotation.endswith(", ...]"):
        element = annotation[6:-6]
        if element in _converters:
            return f"{name} = _T({name}, _B[{element!r}], _C[{element!r}], {where!r})"
        return f"if type({name}) is not tuple: {name} = _tuple({name}, {where!r})"
    return None


def _as_tuple(value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{where} takes a sequence, but was given the string {value!r}")
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{where} takes a sequence, but was given {type(value).__name__}: {value!r}") from None


def _as_node_tuple(value: Any, base: type, convert: Converter, where: str) -> tuple[Any, ...]:
    if type(value) is tuple:
        for item in value:
            if not isinstance(item, base):
                break
        else:
            return value
    return tuple([item if isinstance(item, base) else convert(item, where) for item in _as_tuple(value, where)])


_guarded: list[bool] = []


def _init_source(cls: type, fields: tuple[Field, ...]) -> str:
    """The text of `__init__`; converters are those that are registered now."""
    cls_name = cls.__name__
    params, body = [], []
    for f in fields:
        params.append(f.name if f.required else f"{f.name}=_d_{f.name}")
        convert = _conversion(cls_name, f)
        if convert:
            body.append(convert)
    if _guarded:
        # Past `__setattr__`, which refuses: the slots' own descriptors.
        body += [f"_s_{f.name}(self, {f.name})" for f in fields]
    else:
        body += [f"self.{f.name} = {f.name}" for f in fields]
    if hasattr(cls, "_derive"):
        body.append("self._derive()")
    return f"def __init__(self{''.join(', ' + p for p in params)}):\n " + "\n ".join(body or ["pass"])


def _compiled(cls: type, fields: tuple[Field, ...], source: str) -> Callable[..., None]:
    env: dict[str, Any] = {"_B": _BASES, "_C": _converters, "_T": _as_node_tuple, "_tuple": _as_tuple}
    env |= {f"_d_{f.name}": f.default for f in fields if not f.required}
    if _guarded:
        env |= {f"_s_{f.name}": getattr(cls, f.name).__set__ for f in fields}
    exec(source, env)
    init: Callable[..., None] = env["__init__"]
    init.__qualname__ = f"{cls.__name__}.__init__"
    return init


_uncompiled: dict[type, tuple[tuple[Field, ...], str]] = {}
"""The future `__init__` of types that have no instance yet. Most types of a program are never instantiated: it would be a third of the time
of declaring them."""


def _made_init(cls: type) -> Callable[..., None]:
    """A type's own `__init__`, compiled if it was not yet."""
    found = _uncompiled.get(cls)
    if found is not None:
        cls.__init__ = _compiled(cls, *found)  # type: ignore[misc]
        _uncompiled.pop(cls, None)
    init: Callable[..., None] = cls.__init__  # type: ignore[misc]
    return init


def _late_init(cls: type, fields: tuple[Field, ...]) -> Callable[..., None]:
    """`__init__` of a type before its first instance."""
    _uncompiled[cls] = fields, _init_source(cls, fields)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        _made_init(cls)(self, *args, **kwargs)

    return __init__


def _first_build(self: Node, *values: Any) -> None:
    """`_build` of a type before its first use: most types of a program's start are never made past their `__init__`."""
    cls = type(self)
    fields = cls._fields_all_required()
    cls._build = _compiled(cls, fields, _init_source(cls, fields))  # type: ignore[method-assign]
    cls._build(self, *values)


_registry: dict[str, type[Node]] = {}


@dataclass_transform(field_specifiers=(derived,))
class NodeMeta(type):
    """Turns annotations into slots and `__init__`; registers the class under its key."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], ns: dict[str, Any], key: str | None = None, **kwargs: Any
    ) -> NodeMeta:
        own: list[Field] = []
        slots: list[str] = []
        for attr, annotation in ns.get("__annotations__", {}).items():
            if not isinstance(annotation, str):
                raise InternalError(f"{name}.{attr}: node modules need `from __future__ import annotations`")
            kind, inner = _parse_annotation(annotation)
            if kind == "class":
                continue
            default = ns.pop(attr, _MISSING)
            if default is _DERIVED:
                slots.append(attr)
            else:
                own.append(Field(attr, inner, kind, default))
        inherited: dict[str, Field] = {}
        for base in bases:
            for f in getattr(base, "_fields", ()):
                inherited.setdefault(f.name, f)
        slots += [f.name for f in own if f.name not in inherited]
        taken = {slot for base in bases for c in base.__mro__ for slot in getattr(c, "__slots__", ())}
        slots = [slot for slot in slots if slot not in taken]
        if "__slots__" not in ns:
            ns["__slots__"] = tuple(slots)
        cls = super().__new__(mcs, name, bases, ns, **kwargs)
        # Required fields come first, as in any Python signature; a redeclared field keeps its place.
        merged = {**inherited, **{f.name: f for f in own}}
        cls._fields = tuple(merged.values())  # type: ignore[attr-defined]
        cls._names = tuple(merged)  # type: ignore[attr-defined]
        # Binding fields are compared first, whatever the signature's order: the others use what they bind.
        compared = [(f.name, f.kind == DEF) for f in merged.values() if f.kind != SKIP and f.name not in cls._cosmetic]  # type: ignore[attr-defined]
        cls._compared = tuple(sorted(compared, key=lambda c: not c[1]))  # type: ignore[attr-defined]
        init_fields = sorted(cls._fields, key=lambda f: not f.required)  # type: ignore[attr-defined]
        if "__init__" in ns:
            cls._written_init = True  # type: ignore[attr-defined]
        elif own or not cls._written_init:  # type: ignore[attr-defined]
            # A subclass without fields of its own keeps the hand-written signature of its base.
            cls.__init__ = _late_init(cls, tuple(init_fields))  # type: ignore[misc]
        cls._build = _first_build  # type: ignore[attr-defined]
        if key is not None:
            cls.type_key = key  # type: ignore[attr-defined]
            _registry[key] = cls  # type: ignore[assignment]
        return cls

    def __init__(
        cls, name: str, bases: tuple[type, ...], ns: dict[str, Any], key: str | None = None, **kw: Any
    ) -> None:
        super().__init__(name, bases, ns)

    @property
    def __signature__(cls) -> None:
        """`inspect` asks for this before it looks at `__init__`, which it then finds compiled."""
        _made_init(cls)

    def _fields_all_required(cls) -> tuple[Field, ...]:
        return tuple(Field(f.name, f.annotation, f.kind, _MISSING) for f in cls._fields)  # type: ignore[attr-defined]


VALUE, VARIABLE, GRAPH = "value", "variable", "graph"


class Node(metaclass=NodeMeta):
    """An immutable tree node. Compare with `same_as` (identity) or `structural_equal` (content).

    `_identity` says what makes two nodes the same thing in structural comparison:
    VALUE - their content; VARIABLE - being the same object, or bound at corresponding places;
    GRAPH - their content, and being shared at corresponding places (a DAG is not a tree).
    `_cosmetic` fields are names for people: kept in JSON, ignored by equality and hash.
    A `_leaf` is not entered by functors unless they handle its type. `_binder` is the field with the variable of which
    this node is the scope; a scope of several variables or buffers lists them in `_binds`.
    """

    __slots__ = ("__weakref__",)
    _fields: ClassVar[tuple[Field, ...]] = ()
    _names: ClassVar[tuple[str, ...]] = ()
    _compared: ClassVar[tuple[tuple[str, bool], ...]] = ()
    _identity: ClassVar[str] = VALUE
    _cosmetic: ClassVar[frozenset[str]] = frozenset()
    _leaf: ClassVar[bool] = False
    _binder: ClassVar[str] = ""
    _binds: ClassVar[Callable[[Any], list[Any]] | None] = None
    _written_init: ClassVar[bool] = False
    type_key: ClassVar[str] = ""

    if TYPE_CHECKING:
        # Generated for each node type by the metaclass: assigns all fields in field order, converted.
        def _build(self, *values: Any) -> None: ...

    @classmethod
    def from_fields(cls, *values: Any) -> Self:
        """An instance from all field values in field order, past any hand-written `__init__`."""
        self = cls.__new__(cls)
        self._build(*values)
        return self

    @classmethod
    def restore(cls, values: list[Any]) -> Self:
        """The node that JSON field values stand for; interned types look theirs up instead."""
        return cls.from_fields(*values)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; the same object when none of them differs by identity."""
        for name, value in changes.items():
            if getattr(self, name, _MISSING) is not value:
                break
        else:
            return self
        take = changes.pop
        values = [take(name) if name in changes else getattr(self, name) for name in self._names]
        if changes:
            raise TypeError(f"{type(self).__name__} has no field {sorted(changes)}")
        return type(self).from_fields(*values)

    def same_as(self, other: object) -> bool:
        return self is other

    def legacy_repr(self) -> str:
        """The text of `repr`, under the name that programs have for the printer before TVMScript."""
        return repr(self)

    def script(self, **options: Any) -> str:
        """The program as text that can be parsed back; options are those of script.PrinterConfig."""
        text: str = _script_hooks[0](self, **options)
        return text

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Prints the program, in colour on a terminal; further options are those of `script`."""
        _script_hooks[1](self, style, black_format, **options)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        save, load = _json_hooks
        return load, (save(self),)

    def __repr__(self) -> str:
        printer = find_printer(type(self))
        if printer is not None:
            return printer(self)
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in self._fields if f.kind is not SKIP)})"


_printers: dict[type, Callable[[Any], str]] = {}


def register_printer(cls: type, printer: Callable[[Any], str]) -> None:
    """The text of `repr` and `str` for `cls` and its subclasses."""
    _printers[cls] = printer


def find_printer(cls: type) -> Callable[[Any], str] | None:
    for base in cls.__mro__:
        if base in _printers:
            return _printers[base]
    return None


_script_hooks: list[Callable[..., Any]] = []
_json_hooks: list[Callable[..., Any]] = []


def install_script(script: Callable[..., str], show: Callable[..., None]) -> None:
    """Sets the functions behind `Node.script` and `Node.show`. The package `script`, which is above this one, calls it."""
    _script_hooks[:] = [script, show]


def install_json(save: Callable[[Any], str], load: Callable[[str], Any]) -> None:
    """Sets the functions that save and load nodes in pickles. The module of nodes as JSON calls it."""
    _json_hooks[:] = [save, load]


def node_types() -> Mapping[str, type[Node]]:
    """Every registered node type by its key."""
    return _registry


def install_immutability_guard() -> None:
    """Makes assignment to a field of a finished node an error. For tests; before any node type is declared."""
    if _registry:
        raise InternalError(f"the immutability guard comes too late: {len(_registry)} node types are declared already")
    _guarded.append(True)

    def guard(self: Node, name: str, value: Any) -> None:
        # Generated code writes slots directly, so only what is written by hand passes here.
        if sys._getframe(1).f_code.co_name not in ("__init__", "_derive") and any(
            [f.name == name for f in self._fields]
        ):
            raise InternalError(f"{type(self).__name__}.{name} was assigned after construction; nodes are immutable")
        object.__setattr__(self, name, value)

    Node.__setattr__ = guard  # type: ignore[method-assign, assignment]
