"""Buffers in TVMScript: their declarations in all forms, and regions."""

from __future__ import annotations

from tilewright.ir import IntImm, PrimExpr, PrimType
from tilewright.ir.types import PointerType
from tilewright.node import post_order_visit, structural_equal
from tilewright.script.doc import SUM, Expr, Stmt, assign, binary, list_, literal, slice_, tuple_
from tilewright.script.printer import Printer, expr_hook
from tilewright.tir.buffer import Buffer, extent_of
from tilewright.tir.expr import Add, SizeVar, Sub, Var
from tilewright.tir.stmt import BufferRegion


@expr_hook(Buffer)
def buffer_doc(p: Printer, buffer: Buffer) -> Expr:
    """The name of a buffer. One that nothing declares is declared after its data pointer, or before the program."""
    doc = p.name(buffer)
    if doc is not None:
        return doc
    placed = p.define_after(buffer.data, buffer, buffer.name)
    if placed is not None:
        doc, lines = placed
        lines += declaration(p, buffer, "Buffer", doc)
    else:
        doc = p.define_free(buffer, buffer.name)
        p.free += declaration(p, buffer, "Buffer", doc)
    return doc


def declaration(p: Printer, buffer: Buffer, form: str, name: Expr, source: Expr | None = None) -> list[Stmt]:
    """`name = T.<form>(...)`, after lines that make the variables of its dimensions."""
    lines: list[Stmt] = []
    make_variables(p, buffer, lines)
    value = p.prefix("tir_prefix", form)
    args, kwargs = attributes(p, buffer, name, force_dtype=False, new_data=form != "decl_buffer")
    if source is not None:
        args = [source, *args]
    return [*lines, assign(name, value.call(*args, **kwargs), node=buffer)]


def make_variables(p: Printer, buffer: Buffer, lines: list[Stmt]) -> None:
    """Lines such as `n = T.int32()` for the unknown variables of dimensions and of composite offsets."""

    def make(node: object) -> None:
        if isinstance(node, Var) and not p.is_defined(node):
            doc = p.define(node, node.name)
            maker = p.prefix("tir_prefix", node.dtype)
            lines.append(assign(doc, maker.call(is_size_var="True") if isinstance(node, SizeVar) else maker.call()))

    for dim in buffer.shape:
        post_order_visit(dim, make)
    for e in buffer.strides:
        # A stride that is given by its name alone is an int32.
        if type(e) is not Var or e.dtype != "int32":
            post_order_visit(e, make)
    if not _is_own_offset(buffer):
        post_order_visit(buffer.elem_offset, make)


def _is_own_offset(buffer: Buffer) -> bool:
    """Whether the offset is a variable as a declaration makes it."""
    index = buffer.shape[0].dtype if buffer.shape else "int32"
    return type(buffer.elem_offset) is Var and buffer.elem_offset.dtype == index


def attributes(
    p: Printer, buffer: Buffer, name: Expr, force_dtype: bool, new_data: bool
) -> tuple[list[Expr], dict[str, Expr]]:
    """Positional and keyword arguments of a declaration.

    Unknown strides and offsets become the buffer's own (`A.strides[0]`), and so does unknown data where the
    declaration makes storage (`new_data`).
    """
    args = [tuple_([p.expr(d) for d in buffer.shape])]
    if force_dtype or buffer.dtype != p.config.buffer_dtype:
        args.append(literal(str(buffer.dtype)))
    kwargs: dict[str, Expr] = {}
    if not new_data or p.is_defined(buffer.data) or not has_own_data(buffer):
        kwargs["data"] = p.expr(buffer.data)
        scope = "global"
    else:
        p.define_as(buffer.data, lambda: name.attr("data"))
        scope = buffer.scope()
    if buffer.strides:
        docs: list[Expr] = []
        for i, stride in enumerate(buffer.strides):
            if isinstance(stride, Var) and not p.is_defined(stride):
                docs.append(literal(stride.name))
                p.define_as(stride, lambda i=i: name.attr("strides").index([literal(i)]))  # type: ignore[misc]
            else:
                docs.append(p.expr(stride))
        kwargs["strides"] = tuple_(docs)
    own_offset = _is_own_offset(buffer) and not p.is_defined(buffer.elem_offset)
    if own_offset:
        p.define_as(buffer.elem_offset, lambda: name.attr("elem_offset"))
    elif not _is_zero_offset(buffer) or buffer.offset_factor != 1:
        kwargs["elem_offset"] = p.expr(buffer.elem_offset)
    if scope != "global":
        kwargs["scope"] = literal(scope)
    if buffer.data_alignment != 64:
        kwargs["align"] = literal(buffer.data_alignment)
    if own_offset or buffer.offset_factor != 1:
        kwargs["offset_factor"] = literal(buffer.offset_factor)
    if buffer.buffer_type != 1:
        kwargs["buffer_type"] = literal("auto")
    if buffer.axis_separators:
        kwargs["axis_separators"] = list_([p.expr(s) for s in buffer.axis_separators])
    return args, kwargs


def _is_zero_offset(buffer: Buffer) -> bool:
    index = buffer.shape[0].dtype if buffer.shape else "int32"
    offset = buffer.elem_offset
    return isinstance(offset, IntImm) and offset.value == 0 and offset.dtype == index


def has_own_data(buffer: Buffer) -> bool:
    """Whether the data pointer has the type that a declaration gives to a new one."""
    expected = "int8" if buffer.dtype.is_bool else buffer.dtype
    kind = buffer.data.type_annotation
    return (
        isinstance(kind, PointerType)
        and isinstance(kind.element_type, PrimType)
        and kind.element_type.dtype == expected
    )


def is_plain(buffer: Buffer) -> bool:
    """Whether `A: T.Buffer(shape, dtype)` says all there is to say of a parameter."""
    return (
        not buffer.strides
        and all([isinstance(d, IntImm) for d in buffer.shape])
        and _is_zero_offset(buffer)
        and buffer.scope() == "global"
        and buffer.data_alignment == 64
        and buffer.offset_factor == 1
        and buffer.buffer_type == 1
        and not buffer.axis_separators
        and has_own_data(buffer)
    )


def region_indices(p: Printer, region: BufferRegion) -> list[Expr]:
    """A point where the extent is one, else `begin:end`."""
    return [
        p.expr(r.min) if _is_one(r.extent) else slice_(p.expr(r.min), stop_doc(p, r.min, r.extent))
        for r in region.region
    ]


def stop_doc(p: Printer, begin: PrimExpr, extent: PrimExpr) -> Expr:
    """The end of a range, written so that `end - begin` is the extent again where that is possible."""
    if isinstance(extent, Sub) and structural_equal(extent.b, begin) and _reads_back(begin, extent.a, extent):
        return p.expr(extent.a)
    if begin.dtype is extent.dtype and begin.dtype.is_int:
        stop = begin + extent
        if _reads_back(begin, stop, extent):
            return p.expr(stop)
        return p.prefix("tir_prefix", "Add").call(p.expr(begin), p.expr(extent))
    # Not a range that any program can have, but an error message must be able to show it.
    return binary("+", SUM, p.expr(begin), p.expr(extent))


def _reads_back(begin: PrimExpr, stop: PrimExpr, extent: PrimExpr) -> bool:
    """Whether the parser finds the extent from `begin:stop`."""
    if isinstance(stop, Add) and stop.a is begin and stop.b is extent:
        return True
    if isinstance(extent, IntImm) and isinstance(stop, IntImm) and isinstance(begin, IntImm):
        return True
    return structural_equal(extent_of(begin, stop), extent)


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1
