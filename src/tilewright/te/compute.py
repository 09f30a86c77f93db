"""Constructors of tensors (placeholder, compute, extern, scan), and of the variables and axes that they use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, overload

from tilewright.ir import DataType, PrimExpr, PrimExprLike, Range, as_prim_expr
from tilewright.node import structural_equal
from tilewright.te.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp, TensorComputeOp
from tilewright.te.tag import resolve_tag
from tilewright.te.tensor import Tensor, TensorSlice
from tilewright.te.tensor_intrin import TensorIntrinCall
from tilewright.tir.arithmetic import const
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import IterVar, SizeVar, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Evaluate, Stmt

AXIS_SEPARATOR = "axis_separator"
"""A separator for the indices that `Stage.transform_layout` returns: each group between separators is one physical dimension."""

__all__ = [
    "AXIS_SEPARATOR", "compute", "const", "extern", "extern_primfunc", "placeholder", "reduce_axis", "scan",
    "size_var", "thread_axis", "var",
]  # fmt: skip


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> Var:
    """A scalar variable, such as a symbolic dimension."""
    return Var(name, dtype, span)


def size_var(name: str = "size", dtype: str = "int32", span: Any = None) -> SizeVar:
    """A scalar variable that is never negative."""
    return SizeVar(name, dtype, span)


def any_dim(name: str = "any_dim", dtype: str = "int32", span: Any = None) -> SizeVar:
    """A dimension known only at run time. The dimension `Any` of a relay type becomes this in tensor programs."""
    return size_var(name, dtype, span)


def _shape(shape: Any) -> tuple[PrimExpr, ...]:
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple([d if isinstance(d, PrimExpr) else _dimension(d) for d in dims])


def _dimension(d: Any) -> PrimExpr:
    if isinstance(d, float) and d.is_integer():
        d = int(d)
    if isinstance(d, (bool, str, float)):
        raise TypeError(f"a dimension must be an integer or an expression, but is {d!r}")
    if isinstance(d, int) and d < 0:
        raise ValueError(f"a dimension must not be negative, but is {d}")
    return as_prim_expr(d, "a dimension")


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor of `shape` (an int, an expression or a sequence of them) and `dtype` (float32)."""
    return PlaceholderOp(name, resolve_tag(""), {}, _shape(shape), DataType(dtype or "float32")).output(0)


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Any = None) -> IterVar:
    """An axis to reduce over; `dom` is a Range or a (begin, end) pair."""
    rng = dom if isinstance(dom, Range) else Range(*dom)
    return IterVar(rng, Var(name, rng.extent.dtype), IterVar.CommReduce, thread_tag, span)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Any = None) -> IterVar:
    """A thread axis such as "threadIdx.x". `thread_axis("vthread")` gives only the tag."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError("thread_axis needs a tag, such as 'threadIdx.x', 'blockIdx.y' or 'vthread'")
    rng = (
        None
        if dom is None
        else dom
        if isinstance(dom, Range)
        else Range(*dom)
        if isinstance(dom, (tuple, list))
        else Range(dom)
    )
    dtype = "int32" if rng is None else rng.extent.dtype
    return IterVar(rng, Var(name or tag, dtype), IterVar.ThreadIndex, tag, span)


def _parameter_names(fcompute: Callable[..., Any], ndim: int, varargs_names: Sequence[str] | None) -> list[str]:
    """Names of the axes: the names of the function's parameters without defaults; `*indices` becomes i0, i1, ..."""
    if isinstance(fcompute, FunctionType):
        code = fcompute.__code__
        names = list(code.co_varnames[: code.co_argcount - len(fcompute.__defaults__ or ())])
        variadic = bool(code.co_flags & inspect.CO_VARARGS)
    else:
        parameters = [p for p in inspect.signature(fcompute).parameters.values() if p.default is p.empty]
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        variadic = any([p.kind is p.VAR_POSITIONAL for p in parameters])
    if not variadic:
        return names
    if varargs_names is not None and len(names) + len(varargs_names) != ndim:
        raise ValueError(f"compute: {len(varargs_names)} varargs_names were given for {ndim - len(names)} indices")
    return names + list(varargs_names or [f"i{i}" for i in range(ndim - len(names))])


def _need_indices(name: str, names: list[str], ndim: int, fewer: bool) -> None:
    """Check for one index per dimension, or fewer if an intrinsic writes the other dimensions."""
    if len(names) == ndim or (fewer and len(names) < ndim):
        return
    raise ValueError(
        f"compute {name!r}: the function takes {len(names)} indices ({', '.join(names)}), but the shape has {ndim}"
        " dimensions"
    )


Element = PrimExprLike | TensorSlice | TensorIntrinCall
"""The result of a compute's function for one element."""


@overload
def compute(
    shape: Any,
    fcompute: Callable[..., Element],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor: ...
@overload
def compute(
    shape: Any,
    fcompute: Callable[..., Sequence[Element]],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> list[Tensor]: ...
def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """The tensor whose element at (i, j, ...) is `fcompute(i, j, ...)`.

    If `fcompute` returns a tuple or list, the result is a list of as many tensors of the same shape. If it returns a
    call of a tensor intrinsic, it can take fewer indices than there are dimensions; the call writes the other
    dimensions. Raises ValueError if its parameters do not fit the shape, or if a reduction is nested in its result.
    """
    if not callable(fcompute):
        raise TypeError(
            f"compute {name!r}: a function of the indices is needed, as in lambda i, j: a[i, j] + 1, but was given"
            f" {fcompute!r}"
        )
    dims = _shape(shape)
    names = _parameter_names(fcompute, len(dims), varargs_names)
    _need_indices(name, names, len(dims), fewer=True)
    axis = _spatial(names, dims)
    body = fcompute(*[iv.var for iv in axis])
    if isinstance(body, TensorIntrinCall):
        if attrs:
            raise ValueError(f"compute {name!r}: a call of a tensor intrinsic takes no attrs, but was given {attrs}")
        return _tensor_compute(name, resolve_tag(tag), axis, dims[len(names) :], body)
    _need_indices(name, names, len(dims), fewer=False)
    several = isinstance(body, (tuple, list))
    exprs = tuple([_element(name, e) for e in (body if several else (body,))])
    op = ComputeOp(name, resolve_tag(tag), attrs or {}, axis, exprs)
    return op.output(0) if len(exprs) == 1 else list(op.outputs)


def _element(name: str, e: Any) -> PrimExpr:
    if isinstance(e, PrimExpr) and not isinstance(e, StringImm):
        return e
    if isinstance(e, TensorSlice):
        return e.asobject()
    if isinstance(e, (Tensor, str, StringImm)) or e is None:
        hint = f"; index it, as in {e.name}[i]" if isinstance(e, Tensor) else ""
        raise TypeError(
            f"compute {name!r}: the function must return an expression or a number for each element, but returned"
            f" {'tensor ' + e.name if isinstance(e, Tensor) else repr(e)}{hint}"
        )
    return as_prim_expr(e, f"the body of compute {name!r}")


def _spatial(names: Sequence[str], dims: Sequence[PrimExpr]) -> tuple[IterVar, ...]:
    return tuple(
        [
            IterVar(Range.from_min_extent(as_prim_expr(0, dtype=d.dtype), d), Var(n, d.dtype), IterVar.DataPar)
            for n, d in zip(names, dims, strict=False)
        ]
    )


def _tensor_compute(
    name: str, tag: str, axis: tuple[IterVar, ...], rest: tuple[PrimExpr, ...], call: TensorIntrinCall
) -> Any:
    """A call of an intrinsic at each point of `axis`. The call writes all of the dimensions `rest`."""
    for i, out in enumerate(call.intrin.op.outputs):
        if not structural_equal(out.shape, rest):
            raise ValueError(
                f"compute {name!r}: output {i} of intrinsic {call.intrin.name} has the shape {list(out.shape)}, but the"
                f" dimensions after those of the function's indices are {list(rest)}"
            )
    within = _spatial([f"ax{i}" for i in range(len(rest))], rest)
    op = TensorComputeOp(
        name,
        tag,
        {},
        (*axis, *[a.replace(iter_type=IterVar.Opaque) for a in within]),
        call.reduce_axis,
        len(axis),
        call.intrin,
        call.tensors,
        call.regions,
        call.scalar_inputs,
    )
    return op.output(0) if op.num_outputs == 1 else list(op.outputs)


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Sequence[Buffer] | Buffer | None = None,
    out_buffers: Sequence[Buffer] | Buffer | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors computed by a statement: `fcompute(input buffers, output buffers)` returns a Stmt or a call.

    `shape` is one shape or a list of shapes. `dtype` is one type, or one for each output; the default is the type of
    the only input. `in_buffers` and `out_buffers` replace the default buffers. Returns one tensor, or a list.
    """
    for i, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor):
            raise ValueError(f"extern {name!r}: inputs[{i}] must be a tensor, but is {type(tensor).__name__}")
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    shapes = [_shape(s) for s in dims] if dims and isinstance(dims[0], (tuple, list)) else [_shape(dims)]
    ins = _buffers(in_buffers) or [decl_buffer(t.shape, t.dtype, t.op.name) for t in inputs]
    if len(ins) != len(inputs):
        raise ValueError(f"extern {name!r}: {len(inputs)} inputs, but {len(ins)} in_buffers")
    outs = _buffers(out_buffers)
    if outs is None:
        outs = [
            decl_buffer(s, d, name) for s, d in zip(shapes, _extern_dtypes(name, dtype, shapes, inputs), strict=True)
        ]
    body = fcompute(list(ins), list(outs))
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise ValueError(
            f"extern {name!r}: the function must return a statement or a call, but returned {type(body).__name__}"
        )
    op = ExternOp(name, resolve_tag(tag), attrs or {}, tuple(inputs), tuple(ins), tuple(outs), body)
    return op.output(0) if len(outs) == 1 else list(op.outputs)


def _buffers(given: Sequence[Buffer] | Buffer | None) -> list[Buffer] | None:
    if given is None:
        return None
    return [given] if isinstance(given, Buffer) else list(given)


def _extern_dtypes(name: str, dtype: Any, shapes: list[tuple[PrimExpr, ...]], inputs: Sequence[Tensor]) -> list[str]:
    if dtype is None:
        found = dict.fromkeys(t.dtype for t in inputs)
        if len(found) != 1:
            raise ValueError(
                f"extern {name!r}: no dtype was given, and it cannot be taken from inputs of types"
                f" {[str(d) for d in found]}"
            )
        dtype = next(iter(found))
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else list(dtype)
    if len(dtypes) != len(shapes):
        raise ValueError(f"extern {name!r}: {len(shapes)} outputs, but {len(dtypes)} dtypes")
    return dtypes


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any) -> Any:
    """Tensors computed by a PrimFunc. Its first buffers are `input_tensors`, the others are the outputs.

    Keyword arguments are those of `extern`. Raises ValueError if shapes or types of the inputs do not fit.
    """
    buffers = [primfunc.buffer_map[p] for p in primfunc.params if p in primfunc.buffer_map]
    ins, outs = buffers[: len(input_tensors)], buffers[len(input_tensors) :]
    if len(ins) != len(input_tensors) or not outs:
        raise ValueError(
            f"extern_primfunc: the function has {len(buffers)} buffers, which leaves no output after"
            f" {len(input_tensors)} input tensors"
        )
    for i, (tensor, buffer) in enumerate(zip(input_tensors, ins, strict=True)):
        if tensor.dtype != buffer.dtype or len(tensor.shape) != len(buffer.shape):
            raise ValueError(
                f"extern_primfunc: input {i} is {tensor.dtype}{list(tensor.shape)}, but buffer {buffer.name} of the"
                f" function is {buffer.dtype}{list(buffer.shape)}"
            )
    return extern(
        [tuple(b.shape) for b in outs],
        input_tensors,
        lambda _ins, _outs: primfunc.body,
        in_buffers=ins,
        out_buffers=outs,
        dtype=[b.dtype for b in outs],
        **{"name": str(primfunc.attrs.get("global_symbol", "extern_primfunc")), **kwargs},
    )


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A recurrence: `init` computes the first steps, `update` computes step t from the steps of `state_placeholder`
    before t.

    All three have the steps as their first dimension. A placeholder has the shape of the result. Returns one tensor, or
    a list.
    """
    inits = (init,) if isinstance(init, Tensor) else tuple(init)
    updates = (update,) if isinstance(update, Tensor) else tuple(update)
    states = (state_placeholder,) if isinstance(state_placeholder, Tensor) else tuple(state_placeholder)
    if not len(inits) == len(updates) == len(states):
        raise ValueError(
            f"scan {name!r}: {len(inits)} init, {len(updates)} update and {len(states)} state tensors;"
            " their numbers must agree"
        )
    for i, (a, b, s) in enumerate(zip(inits, updates, states, strict=True)):
        if not a.dtype == b.dtype == s.dtype or not a.ndim == b.ndim == s.ndim:
            raise ValueError(
                f"scan {name!r}: state {i} has init {a.dtype}{list(a.shape)}, update {b.dtype}{list(b.shape)} and"
                f" placeholder {s.dtype}{list(s.shape)}; types and ranks must agree"
            )
    begin, end = inits[0].shape[0], updates[0].shape[0]
    axis = IterVar(Range(begin, end), Var(f"{name}.idx", end.dtype), IterVar.Ordered)
    op = ScanOp(name, resolve_tag(tag), attrs or {}, axis, inits, updates, states, tuple(inputs or ()), ())
    return op.output(0) if len(updates) == 1 else list(op.outputs)
