"""The operations that code generators have rules for, each with one name: expressions and statements by type, intrinsics by their names.

A rule is a method `on_<name>` of an emitter, or of a part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from tilewright.ir import FloatImm, IntImm
from tilewright.tir import (
    Add,
    Allocate,
    AllocateConst,
    And,
    AssertStmt,
    AttrStmt,
    Broadcast,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Call,
    Cast,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Let,
    LetStmt,
    Mul,
    Not,
    Or,
    Prefetch,
    Ramp,
    Select,
    SeqStmt,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    While,
)
from tilewright.tir.scalars import COMPARISONS, DIVISIONS, EXTREMES

K = TypeVar("K", bound=Hashable)


class Operations(Generic[K]):
    """Names of operations by key: the type of a node, or the name of an intrinsic."""

    def __init__(self, names: Mapping[K, str]) -> None:
        self.names = names
        self._methods = {key: f"on_{name}" for key, name in names.items()}

    def rules(self, part: object) -> dict[K, Callable[..., Any]]:
        """The rules of an object as methods, or of a class as functions, by key."""
        return {key: getattr(part, name) for key, name in self._methods.items() if hasattr(part, name)}

    def rule(self, key: K, parts: Iterable[object]) -> Callable[[Any], Any] | None:
        """The rule for one operation, from the first of `parts` that has one; None if none has."""
        name = self._methods.get(key)
        if name is not None:
            for part in parts:
                rule: Callable[[Any], Any] | None = getattr(part, name, None)
                if rule is not None:
                    return rule
        return None


EXPRESSIONS = Operations[type](
    {
        Var: "var",
        SizeVar: "var",
        IntImm: "integer",
        FloatImm: "float",
        StringImm: "string",
        Add: "add",
        Sub: "subtract",
        Mul: "multiply",
        **dict.fromkeys(DIVISIONS, "divide"),
        **dict.fromkeys(EXTREMES, "extreme"),
        **dict.fromkeys(COMPARISONS, "compare"),
        And: "connect",
        Or: "connect",
        Not: "negate",
        Select: "select",
        Cast: "cast",
        Broadcast: "broadcast",
        Ramp: "ramp",
        Shuffle: "shuffle",
        Let: "let",
        BufferLoad: "load",
        Call: "call",
    }
)
STATEMENTS = Operations[type](
    {
        SeqStmt: "sequence",
        Evaluate: "evaluate",
        LetStmt: "let_statement",
        For: "for",
        While: "while",
        IfThenElse: "if",
        AssertStmt: "assert",
        BufferStore: "store",
        Allocate: "allocate",
        AllocateConst: "allocate_const",
        AttrStmt: "attribute",
        DeclBuffer: "declaration",
        BufferRealize: "declaration",
        Prefetch: "hint",
    }
)
INTRINSICS = Operations[str](
    {
        intrinsic: name
        for name, intrinsics in {
            "fma": "fma",
            "ldexp": "ldexp",
            "copysign": "copysign",
            "classify": "isnan isinf isfinite",
            "bitwise": "bitwise_and bitwise_or bitwise_xor",
            "shift": "shift_left shift_right",
            "bitwise_not": "bitwise_not",
            "popcount": "popcount",
            "clz": "clz",
            "reinterpret": "reinterpret",
            "large_uint": "large_uint_imm",
            "q_multiply_shift": "q_multiply_shift",
            "choose": "if_then_else",
            "likely": "likely",
            "address_of": "address_of",
            "access_ptr": "tvm_access_ptr",
            "byte_offset": "handle_add_byte_offset",
            "is_null": "isnullptr",
            "extern": "call_extern call_pure_extern",
            "atomic_add": "atomic_add",
            "llvm": "call_llvm_intrin call_llvm_pure_intrin",
            "prefetch": "prefetch",
            "nothing": "tvm_storage_sync assume start_profile_intrinsic end_profile_intrinsic",
            "return": "ret",
            "undefined": "undef",
            "vector_half": "vectorlow vectorhigh",
            "vector_combine": "vectorcombine",
            "struct_get": "tvm_struct_get",
            "struct_set": "tvm_struct_set",
            "stack_alloca": "tvm_stack_alloca",
            "make_shape": "tvm_stack_make_shape",
            "make_array": "tvm_stack_make_array",
            "call_packed": "tvm_call_packed tvm_call_cpacked call_packed",
            "call_trace": "tvm_call_trace_packed",
            "call_lowered": "tvm_call_packed_lowered tvm_call_cpacked_lowered",
            "throw": "tvm_throw_last_error",
        }.items()
        for intrinsic in intrinsics.split()
    }
)
THREADS = Operations[str](
    {
        intrinsic: name
        for name, intrinsics in {
            "power": "pow",
            "sigmoid": "sigmoid",
            "absolute": "fabs abs",
            "dot": "dp4a",
            "barrier": "tvm_storage_sync",
            "shuffle_by": "tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down",
            "active_mask": "tvm_warp_activemask",
            "likely": "likely ignore_loop_partition tvm_thread_invariant",
        }.items()
        for intrinsic in intrinsics.split()
    }
)
"""Intrinsics for which code generators of devices have rules of their own."""

__all__ = ["EXPRESSIONS", "INTRINSICS", "STATEMENTS", "THREADS", "Operations"]
