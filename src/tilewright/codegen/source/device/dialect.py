"""Dialects: how a language of devices writes types, vectors, functions, memory and threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.codegen.source.device.pieces import legal_vectors
from tilewright.codegen.source.device.prelude import Prelude
from tilewright.codegen.source.device.refused import Refused
from tilewright.codegen.source.text.identifiers import Language, Names
from tilewright.codegen.source.text.operands import ATOM, SUM, UNARY, Text
from tilewright.ir import DataType
from tilewright.support.errors import TVMError
from tilewright.tir.scalars import wrap_int
from tilewright.tir.transform.types.legalize import without_float8

if TYPE_CHECKING:
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import Call, PrimFunc, Var

AXES = tuple([f"{unit}.{axis}" for unit in ("blockIdx", "threadIdx") for axis in "xyz"])
"""The thread axes of a launch."""


Rule = Callable[[Any, Any, Any], Text]
"""From (dialect, emitter of the kernel, call) to the operand."""


class Dialect(ABC):
    """A language of kernels. One object writes one text, and collects what the text begins with.

    Derived classes give the tables and override what their language writes in another way.
    """

    name: ClassVar[str]
    """The language in messages, such as "CUDA C"."""
    identifiers: ClassVar[Language]
    scalars: ClassVar[Mapping[str, str]]
    """dtype of a scalar -> its type."""
    wide: ClassVar[str] = "l"
    """The suffix of literals of 64 bits."""
    math: ClassVar[Mapping[str, str]]
    """Name of an intrinsic -> function of float32 values."""
    fast_math: ClassVar[Mapping[str, str]]
    """The same with fewer correct bits, for the option fast-math."""
    inline: ClassVar[str] = "inline"
    """What stands before functions of the text."""
    rules: ClassVar[Mapping[str, Rule]] = {}
    """Name of an intrinsic that only this language has -> its rule."""
    most_aligned: ClassVar[int] = 16
    """The most bytes to which a vector is aligned."""
    lane_counts: ClassVar[tuple[int, ...]] = (2, 3, 4)
    """How many lanes vectors have. Programs with others are cut into pieces."""

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        self.attrs = attrs
        self.prelude = Prelude()
        self.fast = bool(attrs.get("fast-math", False))

    def legal(self, func: PrimFunc) -> PrimFunc:
        """A kernel with the types that the language has: float8 as bytes, and vectors in pieces."""
        return legal_vectors(without_float8(func, named=True), self.has_vector)

    # --- types

    def scalar(self, dtype: DataType) -> str:
        """The type of a scalar."""
        found = self.scalars.get(str(dtype))
        if found is None:
            raise Refused(f"{self.name} has no values of type {dtype}; cast them to a type that it has")
        return found

    def type(self, dtype: DataType) -> str:
        """The type of a value."""
        if dtype.code in ("void", ""):
            return "void"
        return self.scalar(dtype) if dtype.lanes == 1 else self.vector(dtype)

    def vector(self, dtype: DataType) -> str:
        """The name of a vector type."""
        self.check_lanes(dtype)
        return f"{self.scalar(dtype.element).removeprefix('unsigned ').replace(' ', '')}{dtype.lanes}"

    def stored(self, dtype: DataType) -> str:
        """The type of an element in memory, if it differs from that of a value."""
        return self.scalar(dtype)

    def has_vector(self, element: DataType, lanes: int) -> bool:
        return lanes in self.lane_counts

    def check_lanes(self, dtype: DataType) -> None:
        if not self.has_vector(dtype.element, dtype.lanes):
            raise Refused(f"{self.name} has no vectors of type {dtype}; vectorize fewer elements")

    # --- literals

    def integer(self, value: int, dtype: DataType) -> Text:
        value = wrap_int(value, dtype)
        if dtype.is_bool:
            return Text("true" if value else "false")
        if dtype.is_uint:
            return Text(f"{value}{'u' + self.wide if value >> 32 else 'u' if dtype.bits >= 32 else ''}")
        if value in (-(1 << 31), -(1 << 63)):
            return Text(f"({value + 1}{self.wide if dtype.bits == 64 else ''} - 1)")
        text = f"{value}{'' if -(1 << 31) < value < 1 << 31 else self.wide}"
        return Text(text) if value >= 0 else Text(text, UNARY)

    def typed(self, text: Text, dtype: DataType) -> Text:
        """An integer operand of a function that is overloaded: literals of 64 bits get their suffix."""
        if text.removeprefix("-").isdigit():
            return Text(text + self.wide, text.strength) if dtype.bits == 64 else text
        return text

    def narrowed(self, text: Text, dtype: DataType) -> Text:
        """An integer of less than 32 bits as an operand of a function that is overloaded."""
        kind = self.scalar(dtype)
        called = text.startswith(("max(", "min(")) and text.strength == ATOM
        cast = text.startswith(f"({kind})") and text.strength >= UNARY
        return text if called or cast else Text(f"({kind}){text.at(UNARY)}", UNARY)

    @abstractmethod
    def floating(self, value: float, dtype: DataType) -> Text:
        """A literal, rounded to its type."""

    # --- vectors

    @abstractmethod
    def lane(self, text: Text, dtype: DataType, k: int) -> Text:
        """Lane k of a vector, which must be a name."""

    @abstractmethod
    def joined(self, dtype: DataType, lanes: Sequence[str]) -> Text:
        """A vector of its lanes."""

    @abstractmethod
    def splat(self, dtype: DataType, text: Text) -> Text:
        """A vector of equal lanes."""

    def sign(self, sign: str, a: Text, b: Text, dtype: DataType, strength: int) -> Text:
        """Two vectors with an operator between."""
        return Text(f"{a.at(strength)} {sign} {b.at(strength + 1)}", strength)

    @abstractmethod
    def compared(self, sign: str, a: Text, b: Text, dtype: DataType) -> Text:
        """A vector of truth values: two vectors of `dtype` compared."""

    @abstractmethod
    def select(self, condition: Text, a: Text, b: Text, dtype: DataType) -> Text:
        """Lanes of a where a vector of truth values holds, else of b."""

    @abstractmethod
    def convert(self, text: Text, source: DataType, to: DataType) -> Text:
        """A value in another type."""

    @abstractmethod
    def reinterpret(self, text: Text, source: DataType, to: DataType) -> Text:
        """The bits of a value in another type."""

    # --- functions

    @abstractmethod
    def function(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        """A function of floats on float32 or float64 values. Raises Refused for functions that the language lacks."""

    @abstractmethod
    def extreme(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        """The larger or the smaller value ("max", "min"); NaN where either is."""

    @abstractmethod
    def floor_division(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        """floordiv or floormod of integers whose signs are not known."""

    def dot(self, e: Call, a: Text, b: Text, c: Text) -> Text:
        """c plus the dot product of four bytes by four bytes."""
        first, second = e.args[0].dtype, e.args[1].dtype
        if first.lanes != 4 or second.lanes != 4:
            raise Refused("dp4a takes vectors of four bytes")
        products = [f"{self.lane(a, first, k)} * {self.lane(b, second, k)}" for k in range(4)]
        return Text(" + ".join([*([] if c == "0" else [c.at(SUM)]), *products]), SUM)

    def conversion(self, name: str, lanes: int) -> str | None:
        """The name of a conversion of bits that the language has functions for, which the text then defines; None for others."""
        return None

    @abstractmethod
    def count_bits(self, name: str, dtype: DataType, a: Text) -> Text:
        """popcount or clz of a scalar, as an int32."""

    # --- memory

    def pointer(self, element: str, scope: str, const: bool = False) -> str:
        """The type of a pointer."""
        return f"{'const ' if const else ''}{element}*"

    def load(self, place: Text, dtype: DataType, scope: str, aligned: bool) -> Text | None:
        """A vector of neighbours in memory; None where its lanes must be read one by one. place: the address of the first."""
        if not aligned:
            return None
        return Text(f"*({self.pointer(self.vector(dtype), scope, True)}){place.at(UNARY)}", UNARY)

    def store(self, place: Text, value: Text, dtype: DataType, scope: str, aligned: bool) -> str | None:
        """A statement that writes neighbours in memory; None where lanes must be written one by one."""
        if not aligned:
            return None
        return f"*({self.pointer(self.vector(dtype), scope)}){place.at(UNARY)} = {value};"

    def array(self, element: str, name: str, count: int, scope: str, aligned: int) -> str:
        """Declares storage. aligned: the bytes of its widest access, 0 for single elements."""
        align = f"alignas({aligned}) " if aligned else ""
        return f"{self.qualifier(scope)}{align}{element} {name}[{count}];"

    def qualifier(self, scope: str) -> str:
        return ""

    @abstractmethod
    def constant(self, element: str, name: str, values: Sequence[str]) -> None:
        """Defines an array of constants before the kernels."""

    @abstractmethod
    def dynamic(self, name: str, element: str, emitter: KernelEmitter) -> str:
        """Declares the dynamic shared memory of a kernel. Returns the type of its elements in the declaration."""

    @abstractmethod
    def scalar_parameter(self, kind: str, name: str, place: int) -> str:
        """The declaration of a parameter that is a number."""

    @abstractmethod
    def pointer_parameter(self, element: str, name: str, const: bool, alone: bool, place: int) -> str:
        """The declaration of a parameter in global memory. const: it is only read; alone: no other parameter overlaps it."""

    def described_parameter(self, param: Var, names: Names) -> tuple[Text, str] | None:
        """(name, declaration) of a parameter that describes memory (a tensor map); None for others."""
        return None

    # --- threads and kernels

    @abstractmethod
    def head(self, emitter: KernelEmitter, symbol: str, threads: Sequence[int] | None) -> str:
        """The declaration of a kernel, without the brace. threads: the extents of threadIdx, if they are constant."""

    @staticmethod
    def declared(before: str, params: Sequence[str]) -> str:
        """A declaration. Many parameters have a line each."""
        line = f"{before}({', '.join(params)})"
        return line if len(line) <= 110 else before + "(\n    " + ",\n    ".join(params) + ")"

    @abstractmethod
    def axis(self, tag: str) -> str:
        """The index of a block or a thread."""

    @abstractmethod
    def barrier(self, scope: str) -> str:
        """A statement that waits for other threads."""

    @abstractmethod
    def atomic_add(self, pointer: Text, value: Text, dtype: DataType, scope: str) -> Text:
        """Adds to an element, and returns what it was."""

    def shuffle(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        """tvm_warp_shuffle, _up or _down of (mask, value, which, width, warp size)."""
        raise Refused(
            f"{self.name} has no shuffles within a warp; keep the values in shared memory, or give the target thread_warp_size=1"
        )

    def active_mask(self) -> Text:
        """The threads of a warp that run."""
        return Text("0")

    def unroll(self, count: int) -> str:
        return "#pragma unroll"

    def storage(
        self, emitter: KernelEmitter, scope: str, dtype: DataType, name: str, count: int, var: Any
    ) -> str | None:
        """Declares storage of a scope that only this language has, such as fragments; None for scopes that it lacks."""
        return None


def refuse(error: Refused, emitter: KernelEmitter, node: Any) -> TVMError:
    """The error for the user, which names the kernel, the statement and the target."""
    return emitter.error(str(error), node)


__all__ = ["AXES", "Dialect", "Refused", "Rule", "refuse"]
