"""The words of tensor programs: what `T` is in `from tilewright.script import tir as T`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

from tilewright.ir import DataType, FloatImm, IntImm, Op, PrimExpr, as_prim_expr
from tilewright.ir import Range as IrRange
from tilewright.script.parser import MetaVar, function_from, macro_from
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.arithmetic import (
    add,
    cast_to,
    const,
    div,
    floordiv,
    floormod,
    multiply,
    subtract,
    truncdiv,
    truncmod,
)
from tilewright.tir.buffer import Buffer as _Buffer
from tilewright.tir.buffer import extent_of
from tilewright.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Div,
    FloorDiv,
    FloorMod,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from tilewright.tir.expr import Any_ as Any
from tilewright.tir.function import PrimFunc
from tilewright.tir.intrinsics import intrinsic
from tilewright.tir.parser.blocks import (
    axis,
    block,
    block_attr,
    func_attr,
    func_ret,
    init,
    reads,
    tir_parser,
    where,
    writes,
)
from tilewright.tir.parser.buffers import BufferWord as Buffer
from tilewright.tir.parser.buffers import alloc_buffer, match_buffer
from tilewright.tir.parser.control import Else, If, Then, While, arg, func_name
from tilewright.tir.parser.frames import Loops, check_tag
from tilewright.tir.parser.producers import ProducerLoad, ProducerRealize
from tilewright.tir.parser.program import TirParser
from tilewright.tir.parser.scopes import (
    Assert,
    LetStmt,
    allocate,
    allocate_const,
    attr,
    decl_buffer,
    env_thread,
    launch_thread,
    let,
    realize,
)
from tilewright.tir.parser.scopes import Let_ as Let
from tilewright.tir.parser.values import loop_domain, plain, store_to
from tilewright.tir.parser.words import Word, buffer_var, dtype_of, handle, ptr, var, with_dtype
from tilewright.tir.stmt import BufferRegion, Evaluate, ForKind, Prefetch

Ptr = handle
buffer = buffer_decl = Buffer
boolean = Word(DataType("bool"))
truediv = div
call_intrin = with_dtype(op.call_intrin)
ramp, broadcast = Ramp, Broadcast


def prim_func(
    func: object = None, private: bool = False, check_well_formed: bool = True, implicit_root: bool = True
) -> object:
    """The PrimFunc of a Python function: `@T.prim_func`, or with options in parentheses.

    private: the function gets no global_symbol. check_well_formed: refuse variables that nothing defines.
    implicit_root: put a root block around a body with blocks but without one.
    """
    frame = sys._getframe(1)
    options = {"private": private, "check_well_formed": check_well_formed, "implicit_root": implicit_root}
    if func is None:
        return lambda f: function_from(f, TirParser, frame, **options)
    return function_from(func, TirParser, frame, **options)


prim_func.parser = TirParser  # type: ignore[attr-defined]


def macro(func: object = None, *, hygienic: bool = True) -> object:
    """A piece of program that is read anew wherever it is called.

    hygienic: names that are not parameters mean what they meant at the definition, else at the call.
    """
    frame = sys._getframe(1)
    if func is None:
        return lambda f: macro_from(f, frame, hygienic)
    return macro_from(func, frame, hygienic)


macro.makes_macro = True  # type: ignore[attr-defined]


def meta_var(value: object) -> MetaVar:
    """A value that an assignment binds as it is, instead of making a variable of the program."""
    return MetaVar(value)


def evaluate(value: object) -> None:
    """A statement that evaluates an expression."""
    tir_parser("T.evaluate").emit(Evaluate(as_prim_expr(plain(value), "the argument of T.evaluate")))


def buffer_store(buffer: _Buffer, value: object, indices: list[object], predicate: object = None) -> None:
    """A statement that stores a value to an element, or lanes of a vector where the predicate holds."""
    store = store_to(buffer, indices, value)
    if predicate is not None:
        store = store.replace(predicate=plain(predicate))
    tir_parser("T.buffer_store").emit(store)


_prefetch = intrinsic("prefetch")


def prefetch(buffer: object, bounds: list[object] | None = None, *args: object) -> object:
    """A statement that says that a region of a buffer is read soon; of an address, the instruction itself."""
    if isinstance(buffer, _Buffer) and bounds is not None:
        ranges = tuple([b if isinstance(b, IrRange) else Range(b) for b in bounds])
        tir_parser("T.prefetch").emit(Prefetch(buffer, ranges))
        return None
    assert _prefetch is not None
    return _prefetch(buffer, *([] if bounds is None else [bounds]), *args)


# --- loops


def serial(start: object, stop: object = None, *, annotations: Mapping[str, object] | None = None) -> Loops:
    """A loop over start, ..., stop - 1 in order."""
    return Loops(ForKind.SERIAL, [loop_domain(start, stop)], annotations=annotations)


def parallel(start: object, stop: object = None, *, annotations: Mapping[str, object] | None = None) -> Loops:
    """A loop whose iterations run on several cores."""
    return Loops(ForKind.PARALLEL, [loop_domain(start, stop)], annotations=annotations)


def vectorized(start: object, stop: object = None, *, annotations: Mapping[str, object] | None = None) -> Loops:
    """A loop whose iterations become lanes of vectors."""
    return Loops(ForKind.VECTORIZED, [loop_domain(start, stop)], annotations=annotations)


def unroll(start: object, stop: object = None, *, annotations: Mapping[str, object] | None = None) -> Loops:
    """A loop that is written out."""
    return Loops(ForKind.UNROLLED, [loop_domain(start, stop)], annotations=annotations)


def thread_binding(
    start: object,
    stop: object = None,
    thread: IterVar | str | None = None,
    *,
    annotations: Mapping[str, object] | None = None,
) -> Loops:
    """A loop whose iterations are threads of a tag such as "threadIdx.x"."""
    if thread is None:
        if not isinstance(stop, str):
            raise TypeError('T.thread_binding takes the tag of the threads: thread="threadIdx.x"')
        check_tag(stop)
        return Loops(ForKind.THREAD_BINDING, [loop_domain(start)], stop, annotations)
    if isinstance(thread, str):
        check_tag(thread)
    return Loops(ForKind.THREAD_BINDING, [loop_domain(start, stop)], thread, annotations)


def grid(*extents: object) -> Loops:
    """Nested loops in order; a pair (begin, end) gives a loop that does not start at 0."""
    domains = [loop_domain(*e) if isinstance(e, tuple) else loop_domain(e) for e in extents]
    return Loops(ForKind.SERIAL, domains)


# --- expressions


def cast(value: object, dtype: object) -> PrimExpr:
    """The value in another type."""
    return cast_to(as_prim_expr(plain(value)), dtype_of(dtype))


_ITER_TYPES = (
    "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized", "Parallelized", "Tensorized"
)  # fmt: skip


def iter_var(v: Var, dom: object, iter_type: str, thread_tag: str = "") -> IterVar:
    """An iteration axis as the subject of an attribute."""
    if iter_type not in _ITER_TYPES:
        raise ValueError(f"unknown kind of axis {iter_type!r}; the kinds are {', '.join(_ITER_TYPES)}")
    if isinstance(dom, (tuple, list)):
        dom = Range(*dom)
    return IterVar(dom, v, _ITER_TYPES.index(iter_type), thread_tag)


def Range(begin: object, end: object = None) -> IrRange:
    """The half-open range of integers from begin to end, or from 0."""
    return IrRange.from_min_extent(*loop_domain(begin, end))


def target(target_config: object, host: object = None) -> Target:
    """A description of hardware, from a string or a dictionary."""
    return Target(target_config, host)  # type: ignore[arg-type]


def comm_reducer(combiner: object, identity: list[object]) -> CommReducer:
    """A reduction from a lambda of two tuples of values and the identity."""
    start = [as_prim_expr(v, "the identity of a reducer") for v in identity]
    assert callable(combiner)
    names = list(inspect.signature(combiner).parameters)
    if len(names) != 2 * len(start):
        raise TypeError(
            f"a reducer of {len(start)} values combines {2 * len(start)}, but its lambda takes {len(names)}"
        )
    variables = [Var(name, start[i % len(start)].dtype) for i, name in enumerate(names)]
    made = combiner(*variables)
    results = [as_prim_expr(plain(v)) for v in (made if isinstance(made, (tuple, list)) else (made,))]
    n = len(start)
    return CommReducer(tuple(variables[:n]), tuple(variables[n:]), tuple(results), tuple(start))


def reduce(
    combiner: CommReducer, source: object, init: object, axis: object, condition: object = True, value_index: int = 0
) -> Reduce:
    """Output `value_index` of a reduction over axes."""
    return Reduce(combiner, source, axis, as_prim_expr(condition), value_index, init)


def index_map(
    mapping: object, *, inverse_index_map: object = None, ndim: int | None = None, index_dtype: str = "int32"
) -> object:
    """A layout as a function of indices, for annotations: `T.index_map(lambda i, j: (i // 4, j, i % 4))`."""
    from tilewright.tir import parser

    return parser.IndexMap.from_func(mapping, ndim, inverse_index_map, index_dtype=index_dtype)


def llvm_lookup_intrinsic_id(name: str) -> str:
    """The argument of T.call_llvm_intrin for an LLVM intrinsic: the name itself."""
    if not name.startswith("llvm."):
        raise ValueError(f"the name of an LLVM intrinsic begins with llvm., but was given {name!r}")
    return name


def __getattr__(name: str) -> object:
    """Types by their names, then intrinsics."""
    if name.startswith("__"):
        raise AttributeError(name)
    value: object
    try:
        value = Word(DataType(name))
    except TypeError:
        found = intrinsic(name)
        if found is None:
            raise AttributeError(f"T has no word {name}") from None
        value = with_dtype(found)
    globals()[name] = value
    return value


_TYPES = [
    *(f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "void"),
]


def __dir__() -> list[str]:
    return sorted(
        {*__all__, *_TYPES, *(name.removeprefix("tir.") for name in Op.list_op_names() if name.startswith("tir."))}
    )


__all__ = [
    "BufferRegion", "Call", "CommReducer", "Else", "If", "ProducerLoad", "ProducerRealize", "SizeVar", "Then", "While", "arg",
    "boolean", "broadcast", "buffer", "buffer_var", "func_name", "index_map", "llvm_lookup_intrinsic_id", "prefetch", "ptr", "ramp", "var",
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "And", "Any", "Assert", "Broadcast", "Buffer", "BufferLoad", "Cast", "Div",
    "FloatImm", "FloorDiv", "FloorMod", "IntImm", "IterVar", "Let", "LetStmt", "Max", "Min", "Mod", "Mul", "Not", "Or",
    "PrimFunc", "Ptr", "Ramp", "Select", "Shuffle", "StringImm", "Sub", "Var", "add", "alloc_buffer", "allocate",
    "allocate_const", "attr", "axis", "block", "block_attr", "buffer_decl", "buffer_store", "call_intrin", "cast",
    "comm_reducer", "const", "decl_buffer", "div", "env_thread", "evaluate", "extent_of", "floordiv", "floormod",
    "func_attr", "func_ret", "grid", "handle", "init", "iter_var", "launch_thread", "let", "macro", "match_buffer",
    "meta_var", "multiply", "parallel", "prim_func", "Range", "reads", "realize", "reduce", "serial", "subtract", "target",
    "thread_binding", "truediv", "truncdiv", "truncmod", "unroll", "vectorized", "where", "writes",
]  # fmt: skip
