"""Tensor arrays: lists of tensors of one dtype, whose ranks are free (TensorArrayOps) or whose shape is fixed
(StaticTensorArrayOps). Their functions are relay text, written out for a dtype and a shape when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import DataType, GlobalTypeVar, GlobalVar, IntImm, TensorType, Type, TypeCall
from tilewright.relay.adt import Constructor
from tilewright.relay.cards.relations import Dim
from tilewright.relay.expr import Expr
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_module_text
from tilewright.relay.source_map import remember
from tilewright.relay.typing.infer_type import infer_types
from tilewright.tir import Any as AnyDim

if TYPE_CHECKING:
    from tilewright.relay.prelude.standard_library import Prelude

Shape = Sequence[Any]
"""Extents: numbers, and for sizes that differ `tir.Any` or "?"."""

RANKS = range(7)
"""Ranks that a tensor in a tensor array of free ranks may have."""


def tensor_text(dtype: str, shape: Shape) -> str:
    """The type of a tensor in relay text."""
    if not shape:
        return dtype
    dims = ["?" if isinstance(d, AnyDim) or d == "?" else str(int(d)) for d in shape]
    return f"Tensor[({', '.join(dims)}{',' if len(dims) == 1 else ''}), {dtype}]"


COMMON = """
def @tensor_array$s(%n: int32) -> List[$T] {
  if (%n == 0) { Nil() } else { Cons($nil, @tensor_array$s(%n - 1)) }
}
def @tensor_array_read$s(%l: List[$T], %n: int32) -> $T { @nth(%l, %n) }
def @tensor_array_write$s(%l: List[$T], %n: int32, %v: $T) -> List[$T] { @update(%l, %n, %v) }
def @tensor_array_scatter_from$s(%l: List[$T], %i: int32, %end: int32, %at: Tensor[(?), int32], %new: List[$T]) -> List[$T] {
  match (%new) {
    Cons(%v, %rest) => {
      if (%i < %end) {
        @tensor_array_scatter_from$s(@update(%l, take(%at, %i, axis=0), %v), %i + 1, %end, %at, %rest)
      } else { %l }
    },
    Nil => %l,
  }
}
def @tensor_array_scatter$s(%l: List[$T], %at: Tensor[(?), int32], %new: List[$T]) -> List[$T] {
  @tensor_array_scatter_from$s(%l, 0, take(shape_of(%at, dtype="int32"), 0, axis=0), %at, %new)
}
def @tensor_array_pick$s(%l: List[$T], %i: int32, %end: int32, %at: Tensor[(?), int32]) -> List[$T] {
  if (%i == %end) { Nil() } else {
    Cons(@nth(%l, take(%at, %i, axis=0)), @tensor_array_pick$s(%l, %i + 1, %end, %at))
  }
}
"""

SPLIT = """
def @tensor_array_split_from$s(%l: List[$T], %v: $V, %o: int32, %i: int32, %end: int32, %n: Tensor[(?), int32]) -> List[$T] {
  if (%i == %end) { %l } else {
    let %next = %o + take(%n, %i, axis=0);
    let %rest = @tensor_array_split_from$s(%l, %v, %next, %i + 1, %end, %n);
    @update(%rest, %i, $part)
  }
}
def @tensor_array_split$s(%l: List[$T], %v: $V, %n: Tensor[(?), int32]) -> List[$T] {
  @tensor_array_split_from$s(%l, %v, 0, 0, take(shape_of(%n, dtype="int32"), 0, axis=0), %n)
}
"""

JOIN = """
def @tensor_array_stack$s(%l: List[$T]) -> $R { @tensor_array_concat$g(@map(@tensor_expand_dims$s, %l)) }
def @tensor_array_gather$s(%l: List[$T], %at: Tensor[(?), int32]) -> $R {
  @tensor_array_stack$s(@tensor_array_pick$s(%l, 0, take(shape_of(%at, dtype="int32"), 0, axis=0), %at))
}
"""

UNSTACK = """
def @tensor_array_unstack_from$u(%i: int32, %end: int32, %x: $X) -> List[$T] {
  if (%i == %end) { Nil() } else {
    Cons($make(take(%x, %i, axis=0)), @tensor_array_unstack_from$u(%i + 1, %end, %x))
  }
}
def @$unstack(%x: $X) -> List[$T] {
  @tensor_array_unstack_from$u(0, take(shape_of(%x, dtype="int32"), 0, axis=0), %x)
}
"""


def fill(text: str, **parts: str) -> str:
    """The text with `$name` replaced, longer names first."""
    for name in sorted(parts, key=len, reverse=True):
        text = text.replace(f"${name}", parts[name])
    return text


def define(prelude: Prelude, name: str, text: str) -> None:
    """Add what a text defines to the prelude's module; what that has already stays."""
    remember(name, text)
    made = parse_module_text(Source(name, text), prelude.mod, None)
    for header, data in made.type_definitions.items():
        if header not in prelude.mod.type_definitions:
            prelude.mod[header] = data
    for gvar, f in made.functions.items():
        if gvar not in prelude.mod.functions:
            prelude.mod[gvar] = f


class TensorArrayOps:
    """Lists of tensors of a dtype and of any rank up to 6: the type `tensor_<dtype>_t` has a constructor for each rank."""

    def __init__(self, prelude: Prelude, dtype: str) -> None:
        self.prelude, self.dtype = prelude, str(DataType(dtype))

    def get_name(self, canonical: str) -> str:
        """The name of a type, constructor or function for this dtype."""
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """A function, such as "tensor_array_read"."""
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """A type, such as "tensor_t"."""
        found: GlobalTypeVar = self.prelude.get_type(canonical, self.dtype)
        return found

    def get_ctor(self, canonical: str) -> Constructor:
        """A constructor, such as "tensor1"."""
        return self.prelude.get_tensor_ctor(canonical, self.dtype)

    def register(self) -> None:
        """Define the type and its functions in the prelude's module, unless they are there."""
        s, t = f"_{self.dtype}", self.get_name("tensor_t")
        if any([h.name_hint == t for h in self.prelude.mod.type_definitions]):
            return
        types = [tensor_text(self.dtype, ["?"] * r) for r in RANKS]
        forms = ", ".join([f"tensor{r}{s}({types[r]})" for r in RANKS])
        take = "".join([f"tensor{r}{s}(%x) => tensor{r}{s}(take(%x, %at, axis=0)),\n" for r in RANKS[1:]])
        expand = "".join([f"tensor{r}{s}(%x) => tensor{r + 1}{s}(expand_dims(%x, axis=0)),\n" for r in RANKS[:-1]])
        pairs = "".join(
            [
                f"(tensor{r}{s}(%x), tensor{r}{s}(%y)) => tensor{r}{s}(concatenate((%x, %y), axis=0)),\n"
                for r in RANKS[1:]
            ]
        )
        text = f"""
type {t} {{ tensor_nil{s}, {forms} }}
def @tensor_take{s}(%t: {t}, %lower: int32, %upper: int32) -> {t} {{
  let %at = dyn.arange(%lower, %upper, 1, dtype="int32");
  match? (%t) {{ {take} }}
}}
def @tensor_expand_dims{s}(%t: {t}) -> {t} {{ match? (%t) {{ {expand} }} }}
def @tensor_concatenate{s}(%a: {t}, %b: {t}) -> {t} {{ match? ((%a, %b)) {{ {pairs} }} }}
def @tensor_array_concat{s}(%l: List[{t}]) -> {t} {{
  match (%l) {{
    Cons(%x, Nil) => %x,
    Cons(%x, %rest) => @tensor_concatenate{s}(%x, @tensor_array_concat{s}(%rest)),
    Nil => tensor_nil{s}(),
  }}
}}
"""
        text += COMMON + SPLIT + JOIN
        text = fill(text, s=s, g=s, T=t, R=t, V=t, nil=f"tensor_nil{s}()", part=f"@tensor_take{s}(%v, %o, %next)")
        for r in RANKS[1:]:
            name = f"tensor_array_unstack_tensor{r}{s}"
            text += fill(UNSTACK, u=f"_tensor{r}{s}", unstack=name, X=types[r], T=t, make=f"tensor{r - 1}{s}")
        define(self.prelude, f"tensor arrays of {self.dtype}", text)

    # One after the other they would define what one text defines at once.
    define_tensor_adt = define_tensor_array = define_tensor_array_concat = define_tensor_array_gather = register
    define_tensor_array_read = define_tensor_array_scatter = define_tensor_array_split = define_tensor_array_stack = (
        register
    )
    define_tensor_array_unstack_tensor1 = define_tensor_array_unstack_tensor2 = define_tensor_array_unstack_tensor3 = (
        register
    )
    define_tensor_array_unstack_tensor4 = define_tensor_array_unstack_tensor5 = define_tensor_array_unstack_tensor6 = (
        register
    )
    define_tensor_array_write = define_tensor_concat = define_tensor_expand_dims = define_tensor_take = register


class StaticTensorArrayOps:
    """Lists of tensors of a dtype and a shape, in which Any stands for sizes that differ. What joins or splits tensors along
    their first dimension leaves that open; stacked ones have `batch_dim` (default: any number of) rows."""

    def __init__(self, prelude: Prelude, dtype: str, shape: Shape, batch_dim: int | None = None) -> None:
        self.prelude, self.dtype, self.batch_dim = prelude, str(DataType(dtype)), batch_dim
        self.shape = tuple([d if isinstance(d, AnyDim) else int(d) for d in shape])

    def get_name(self, canonical: str) -> str:
        """The name of a type, constructor or function for this dtype and shape."""
        return self.prelude.get_name_static(canonical, self.dtype, self.shape, self.batch_dim)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """A function, such as "tensor_array_read"."""
        return self.prelude.get_global_var_static(canonical, self.dtype, self.shape, self.batch_dim)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """A type, such as "tensor_t"."""
        return self.prelude.get_type_static(canonical, self.dtype, self.shape)

    def get_ctor(self, canonical: str) -> Constructor:
        """A constructor: "tensor_constructor" or "tensor_nil"."""
        return self.prelude.get_tensor_ctor_static(canonical, self.dtype, self.shape)

    def _suffix(self, shape: Shape) -> str:
        return self.prelude.get_name_static("", self.dtype, shape)

    def _type(self, shape: Shape) -> str:
        """The text of the type's definition; "" where the module has it."""
        name = self.prelude.get_name_static("tensor_t", self.dtype, shape)
        if any([h.name_hint == name for h in self.prelude.mod.type_definitions]):
            return ""
        s = self._suffix(shape)
        return f"type {name} {{ tensor_nil{s}, tensor_constructor{s}({tensor_text(self.dtype, shape)}) }}\n"

    def register(self) -> None:
        """Define the type and its functions in the prelude's module, unless they are there."""
        p, shape = self.prelude, self.shape
        s = self._suffix(shape) if self.batch_dim is None else p.get_name_static("", self.dtype, shape, self.batch_dim)
        if any([g.name_hint == f"tensor_array_read{s}" for g in p.mod.functions]):
            return
        own, t = self._suffix(shape), p.get_name_static("tensor_t", self.dtype, shape)
        rows = (self.batch_dim if self.batch_dim is not None else AnyDim(), *shape)
        texts = [self._type(shape)]
        make = f"tensor_constructor{own}"
        texts.append(fill(COMMON, s=s, T=t, nil=f"tensor_nil{own}()"))
        texts.append(
            f"def @tensor_get_data{s}(%t: {t}) -> {tensor_text(self.dtype, shape)} {{ match? (%t) {{ {make}(%x) => %x }} }}\n"
        )
        stacked = self._joined(s, "stack", rows, texts, f"{make}(%x)", "expand_dims(%x, axis=0)", t)
        texts.append(
            f"""def @tensor_array_gather{s}(%l: List[{t}], %at: Tensor[(?), int32]) -> {stacked[0]} {{
  let %picked = @tensor_array_pick{s}(%l, 0, take(shape_of(%at, dtype="int32"), 0, axis=0), %at);
  {stacked[1]}(@tensor_array_stack_of{s}(%picked))
}}\n"""
        )
        texts.append(
            fill(
                UNSTACK,
                u=s,
                unstack=f"tensor_array_unstack{s}",
                X=tensor_text(self.dtype, rows),
                T=t,
                make=make,
            )
        )
        if shape:
            dynamic_rows = (AnyDim(), *shape[1:])
            taken = self._joined(s, "concat", dynamic_rows, texts, f"{make}(%x)", "%x", t)
            value = tensor_text(self.dtype, shape)
            texts.append(
                f"""def @tensor_take{s}(%t: {t}, %lower: int32, %upper: int32) -> {taken[0]} {{
  match? (%t) {{ {make}(%x) => {taken[1]}(take(%x, dyn.arange(%lower, %upper, 1, dtype="int32"), axis=0)) }}
}}\n"""
            )
            if isinstance(shape[0], AnyDim):
                part = f'{make}(take(%v, dyn.arange(%o, %next, 1, dtype="int32"), axis=0))'
                texts.append(fill(SPLIT, s=s, T=t, V=value, part=part))
        define(p, f"tensor arrays of {tensor_text(self.dtype, shape)}", "\n".join(texts))

    # One after the other they would define what one text defines at once.
    define_tensor_adt = define_tensor_array = define_tensor_array_concat = define_tensor_array_gather = register
    define_tensor_array_read = define_tensor_array_stack = define_tensor_array_unstack = define_tensor_array_write = (
        register
    )
    define_tensor_concatenate = define_tensor_expand_dims = define_tensor_get_data = define_tensor_take = register

    def define_tensor_array_scatter(self, indices_shape: Shape | None = None, force_update: bool = False) -> None:
        """`register`: what is defined takes indices of any number."""
        del indices_shape, force_update
        self.register()

    def define_tensor_array_split(
        self, value_shape: Shape | None = None, lengths_shape: Shape | None = None, force_update: bool = False
    ) -> None:
        """`register`: what is defined takes any number of lengths."""
        del value_shape, lengths_shape, force_update
        self.register()

    def is_cached(self, name: str) -> bool:
        """Whether the module has this function, such as "tensor_array_read"."""
        found = self.get_name(name)
        return any([g.name_hint == found for g in self.prelude.mod.functions])

    def _joined(
        self, s: str, name: str, shape: Shape, texts: list[str], form: str, row: str, t: str
    ) -> tuple[str, str]:
        """Definitions of the function that joins a list along the first dimension, and of its result's type: the name of that
        and of its constructor."""
        p = self.prelude
        result, make = p.get_name_static("tensor_t", self.dtype, shape), f"tensor_constructor{self._suffix(shape)}"
        head = self._type(shape)
        if head and head not in texts:
            texts.append(head)
        dynamic_rows = tensor_text(self.dtype, (AnyDim(), *shape[1:]))
        texts.append(
            f"""def @tensor_array_{name}_of{s}(%l: List[{t}]) -> {dynamic_rows} {{
  match? (%l) {{
    Cons({form}, Nil) => {row},
    Cons({form}, %rest) => concatenate(({row}, @tensor_array_{name}_of{s}(%rest)), axis=0),
  }}
}}
def @tensor_array_{name}{s}(%l: List[{t}]) -> {result} {{ {make}(@tensor_array_{name}_of{s}(%l)) }}
"""
        )
        return result, make


def get_tensor_array_shape(expr: Expr, dtype: str, prelude: Prelude) -> tuple[Dim, ...] | None:
    """The shape of the tensors in an expression that is a static tensor array; None for one of free ranks."""
    t: Type = infer_types(expr, prelude.mod)
    inner = t.args[0] if isinstance(t, TypeCall) else t
    for header, data in prelude.mod.type_definitions.items():
        if header == inner or (isinstance(inner, TypeCall) and header == inner.func):
            for c in data.constructors:
                if c.name_hint.startswith("tensor_constructor") and isinstance(c.inputs[0], TensorType):
                    return tuple([d.value if isinstance(d, IntImm) else d for d in c.inputs[0].shape])
    return None
