"""Statements of tir in TVMScript. Scopes at the end of a suite are plain lines, others `with` statements."""

from __future__ import annotations

import numpy as np

from tilewright.ir import DataType, IntImm, PointerType, PrimExpr, PrimType, Range
from tilewright.node import post_order_visit
from tilewright.script.doc import Expr, Line, Stmt, Suite, assign, bare_tuple, list_, literal, slice_
from tilewright.script.printer import Printer, stmt_hook
from tilewright.tir import stmt as S
from tilewright.tir.expr import Call, IterVar, Var
from tilewright.tir.printer.buffers import attributes, buffer_doc, declaration, stop_doc
from tilewright.tir.printer.exprs import index_docs, producer_name, t, type_doc, var_creation


def _scoped(
    p: Printer, target: Var | None, hint: str, value: Expr, body: S.Stmt, node: S.Stmt, annotation: bool = False
) -> list[Stmt]:
    """`target = value` and the body below it, or `with value as target:` where something follows."""
    if p.concise:
        if target is None:
            return [Line(value, node=node), *p.body(body)]
        note = type_doc(p, target) if annotation else None
        doc = p.define(target, hint)
        line = assign(doc, value, note, node=node)
        return [line, p.open_slot(target), *p.body(body)]
    with p.scope():
        header: list[str | Expr] = ["with ", value]
        slot: list[Stmt] = []
        if target is not None:
            header += [" as ", p.define(target, hint)]
            slot.append(p.open_slot(target))
        return [Suite(header, [*slot, *p.body(body)], node)]


@stmt_hook(S.SeqStmt)
def _seq(p: Printer, s: S.SeqStmt) -> list[Stmt]:
    concise, docs = p.concise, []
    for i, item in enumerate(s.seq):
        docs += p.body(item, concise and i == len(s.seq) - 1)
    return docs


@stmt_hook(S.Evaluate)
def _evaluate(p: Printer, s: S.Evaluate) -> list[Stmt]:
    doc = p.expr(s.value)
    return [Line(doc if isinstance(s.value, Call) else t(p, "evaluate").call(doc), node=s)]


@stmt_hook(S.BufferStore)
def _store(p: Printer, s: S.BufferStore) -> list[Stmt]:
    buffer, value = buffer_doc(p, s.buffer), p.expr(s.value)
    if s.predicate is None:
        return [assign(buffer.index(index_docs(p, s.indices)), value, node=s)]
    indices = list_([p.expr(i) for i in s.indices])
    return [Line(buffer.attr("vstore").call(indices, value, predicate=p.expr(s.predicate)), node=s)]


@stmt_hook(S.LetStmt)
def _let(p: Printer, s: S.LetStmt) -> list[Stmt]:
    value = p.expr(s.value)
    if p.is_defined(s.var):
        with p.scope():
            return [Suite(["with ", t(p, "LetStmt").call(value, var=p.expr(s.var))], p.body(s.body), s)]
    if p.concise:
        return _scoped(p, s.var, s.var.name, value, s.body, s, annotation=True)
    plain = s.var.type_annotation == PrimType(s.value.dtype)
    note = [] if plain and type(s.var) is Var else [type_doc(p, s.var)]
    return _scoped(p, s.var, s.var.name, t(p, "LetStmt").call(value, *note), s.body, s)


@stmt_hook(S.AssertStmt)
def _assert(p: Printer, s: S.AssertStmt) -> list[Stmt]:
    condition, message = p.expr(s.condition), p.expr(s.message)
    if p.concise:
        return [Line("assert ", condition, ", ", message, node=s), *p.body(s.body)]
    with p.scope():
        return [Suite(["with ", t(p, "Assert").call(condition, message)], p.body(s.body), s)]


@stmt_hook(S.While)
def _while(p: Printer, s: S.While) -> list[Stmt]:
    with p.scope():
        return [Suite(["while ", p.expr(s.condition)], p.body(s.body), s)]


@stmt_hook(S.IfThenElse)
def _if(p: Printer, s: S.IfThenElse) -> list[Stmt]:
    with p.scope():
        docs: list[Stmt] = [Suite(["if ", p.expr(s.condition)], p.body(s.then_case), s)]
    if s.else_case is not None:
        with p.scope():
            docs.append(Suite(["else"], p.body(s.else_case)))
    return docs


@stmt_hook(S.Allocate)
def _allocate(p: Printer, s: S.Allocate) -> list[Stmt]:
    scope = getattr(s.buffer_var.type_annotation, "storage_scope", "global")
    kwargs: dict[str, Expr] = {}
    if not (isinstance(s.condition, IntImm) and s.condition.value == 1):
        kwargs["condition"] = p.expr(s.condition)
    if s.annotations:
        kwargs["annotations"] = p.data(dict(s.annotations))
    extents = list_([p.expr(e) for e in s.extents])
    value = t(p, "allocate").call(extents, literal(str(s.dtype)), literal(scope), **kwargs)
    return _storage(p, s, value)


def _storage(p: Printer, s: S.Allocate | S.AllocateConst, value: Expr) -> list[Stmt]:
    """An allocation, after a line that makes the pointer when its type is not the one that the allocation gives."""
    var = s.buffer_var
    expected = PrimType(DataType("int8") if s.dtype.is_bool else s.dtype)
    if isinstance(var.type_annotation, PointerType) and var.type_annotation.element_type == expected:
        return _scoped(p, var, var.name, value, s.body, s)
    with p.scope():
        name = p.fresh(var.name)
        made = assign(Expr((name,)), var_creation(p, var))
        return [made, *_scoped(p, var, var.name, value, s.body, s)]


@stmt_hook(S.AllocateConst)
def _allocate_const(p: Printer, s: S.AllocateConst) -> list[Stmt]:
    array = np.asarray(s.data)
    sizes = [e.value if isinstance(e, IntImm) else None for e in s.extents]
    if array.size > 256 or list(array.shape) != sizes:
        data = p.data(array)
    else:
        data = list_([literal(v) for v in array.reshape(-1).tolist()])
    extents = list_([p.expr(e) for e in s.extents])
    kwargs = {"annotations": p.data(dict(s.annotations))} if s.annotations else {}
    value = t(p, "allocate_const").call(data, literal(str(s.dtype)), extents, **kwargs)
    return _storage(p, s, value)


@stmt_hook(S.DeclBuffer)
def _decl_buffer(p: Printer, s: S.DeclBuffer) -> list[Stmt]:
    if p.concise:
        lines = declaration(p, s.buffer, "decl_buffer", p.define(s.buffer, s.buffer.name))
        return [*lines[:-1], _retarget(lines[-1], s), *p.body(s.body)]
    with p.scope():
        name = p.define(s.buffer, s.buffer.name)
        args, kwargs = attributes(p, s.buffer, name, force_dtype=False, new_data=False)
        return [Suite(["with ", t(p, "decl_buffer").call(*args, **kwargs), " as ", name], p.body(s.body), s)]


def _retarget(line: Stmt, node: S.Stmt) -> Stmt:
    """A declaration's line recorded as the text of the statement that declares."""
    if isinstance(line, Line) and line.node is not None:
        return Line(line.expr.of(line.node), node=node)
    return line


@stmt_hook(S.AttrStmt)
def _attr(p: Printer, s: S.AttrStmt) -> list[Stmt]:
    node, value = s.node, p.expr(s.value)
    if s.attr_key == "thread_extent" and isinstance(node, IterVar) and _is_plain_thread(node):
        if not p.is_defined(node.var):
            launch = t(p, "launch_thread").call(literal(node.thread_tag), value)
            return _scoped(p, node.var, node.var.name, launch, s.body, s)
        launch = t(p, "launch_thread").call(p.expr(node.var), value)
        return _scoped(p, None, "", launch, s.body, s)
    return _scoped(p, None, "", t(p, "attr").call(p.data(node), literal(s.attr_key), value), s.body, s)


def _is_plain_thread(axis: IterVar) -> bool:
    return axis.dom is None and axis.iter_type == IterVar.ThreadIndex


@stmt_hook(S.BufferRealize)
def _realize_buffer(p: Printer, s: S.BufferRealize) -> list[Stmt]:
    bounds = [slice_(p.expr(r.min), stop_doc(p, r.min, r.extent)) for r in s.bounds]
    buffer = buffer_doc(p, s.buffer).index(bounds)
    kwargs = {} if isinstance(s.condition, IntImm) and s.condition.value else {"condition": p.expr(s.condition)}
    return _scoped(p, None, "", t(p, "realize").call(buffer, literal(s.buffer.scope()), **kwargs), s.body, s)


@stmt_hook(S.Prefetch)
def _prefetch(p: Printer, s: S.Prefetch) -> list[Stmt]:
    bounds = list_([p.expr(r) for r in s.bounds])
    return [Line(t(p, "prefetch").call(buffer_doc(p, s.buffer), bounds), node=s)]


@stmt_hook(S.ProducerStore)
def _producer_store(p: Printer, s: S.ProducerStore) -> list[Stmt]:
    target = producer_name(p, s.producer).index([p.expr(i) for i in s.indices])
    return [assign(target, p.expr(s.value), node=s)]


@stmt_hook(S.ProducerRealize)
def _producer_realize(p: Printer, s: S.ProducerRealize) -> list[Stmt]:
    bounds = [slice_(p.expr(r.min), stop_doc(p, r.min, r.extent)) for r in s.bounds]
    value = t(p, "ProducerRealize").call(
        producer_name(p, s.producer).index(bounds), p.expr(s.condition), literal(s.storage_scope)
    )
    return _scoped(p, None, "", value, s.body, s)


# --- loops


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _plain_loop(loop: S.For) -> bool:
    return loop.kind == S.ForKind.SERIAL and _is_zero(loop.min) and not loop.annotations and loop.thread_binding is None


def _uses(e: PrimExpr, variables: set[int]) -> bool:
    found: list[object] = []
    post_order_visit(e, lambda n: found.append(n) if id(n) in variables else None)
    return bool(found)


@stmt_hook(S.For)
def _for(p: Printer, loop: S.For) -> list[Stmt]:
    loops = [loop]
    if p.config.syntax_sugar and _plain_loop(loop):
        bound = {id(loop.loop_var)}
        inner = loop.body
        while isinstance(inner, S.For) and _plain_loop(inner) and not _uses(inner.extent, bound):
            loops.append(inner)
            bound.add(id(inner.loop_var))
            inner = inner.body
    if len(loops) > 1:
        extents = [p.expr(x.extent) for x in loops]
        with p.scope():
            names = [_loop_name(p, x) for x in loops]
            # The header's span is the outermost loop's; an inner loop is marked at its variable.
            targets = [names[0], *(n.of(x) for n, x in zip(names[1:], loops[1:], strict=True))]
            header: list[str | Expr] = ["for ", bare_tuple(targets), " in ", t(p, "grid").call(*extents)]
            return [Suite(header, p.body(loops[-1].body), loop)]
    domain = _loop_domain(p, loop)
    with p.scope():
        return [Suite(["for ", _loop_name(p, loop), " in ", domain], p.body(loop.body), loop)]


def _loop_name(p: Printer, loop: S.For) -> Expr:
    # Block axes that just rename the loop are recognised by its range.
    p.facts[id(loop.loop_var)] = (loop.min, loop.extent)
    return p.define(loop.loop_var, loop.loop_var.name)


_KINDS = ("serial", "parallel", "vectorized", "unroll", "thread_binding")


def _loop_domain(p: Printer, loop: S.For) -> Expr:
    kind = _KINDS[loop.kind]
    args = [p.expr(loop.extent)]
    if not _is_zero(loop.min):
        args = [p.expr(loop.min), stop_doc(p, loop.min, loop.extent)]
    if kind == "serial" and not loop.annotations:
        return Expr(("range",)).call(*args)
    kwargs: dict[str, Expr] = {}
    if loop.thread_binding is not None:
        thread = loop.thread_binding
        plain = (
            thread.dom is None and thread.var.dtype == loop.loop_var.dtype and thread.iter_type == IterVar.ThreadIndex
        )
        kwargs["thread"] = literal(thread.thread_tag) if plain else p.expr(thread)
    if loop.annotations:
        kwargs["annotations"] = p.data(dict(loop.annotations))
    return t(p, kind).call(*args, **kwargs)


# --- blocks


@stmt_hook(S.BlockRealize)
def _block_realize(p: Printer, r: S.BlockRealize) -> list[Stmt]:
    return _block_suite(p, r.block, r)


@stmt_hook(S.Block)
def _block(p: Printer, b: S.Block) -> list[Stmt]:
    return _block_suite(p, b, None)


def _block_suite(p: Printer, b: S.Block, realize: S.BlockRealize | None) -> list[Stmt]:
    values = None if realize is None else [p.expr(v) for v in realize.iter_values]
    no_realize = {"no_realize": literal(True)} if realize is None else {}
    header: list[Expr | str] = ["with ", t(p, "block").call(literal(b.name_hint), **no_realize).of(b)]
    with p.scope():
        body = _axes(p, b, realize, values)
        if realize is not None and not (isinstance(realize.predicate, IntImm) and realize.predicate.value == 1):
            body.append(Line(t(p, "where").call(p.expr(realize.predicate))))
        own = [*b.alloc_buffers, *[m.buffer for m in b.match_buffers]]
        # Buffers are declared after the regions, but for those that a region names.
        early = any([r.buffer is buffer for r in (*b.reads, *b.writes) for buffer in own])
        if early:
            body += _block_buffers(p, b)
        body.append(Line(t(p, "reads").call(*[p.expr(x) for x in b.reads])))
        body.append(Line(t(p, "writes").call(*[p.expr(x) for x in b.writes])))
        if b.annotations:
            body.append(Line(t(p, "block_attr").call(p.data(dict(b.annotations)))))
        if not early:
            body += _block_buffers(p, b)
        if b.init is not None:
            with p.scope():
                body.append(Suite(["with ", t(p, "init").call()], p.body(b.init)))
        body += p.body(b.body)
    return [Suite(header, body, b if realize is None else realize)]


def _block_buffers(p: Printer, b: S.Block) -> list[Stmt]:
    lines: list[Stmt] = []
    for buffer in b.alloc_buffers:
        lines += declaration(p, buffer, "alloc_buffer", p.define(buffer, buffer.name))
        lines.append(p.open_slot(buffer.data))
    for match in b.match_buffers:
        source = p.expr(match.source)
        lines += declaration(p, match.buffer, "match_buffer", p.define(match.buffer, match.buffer.name), source)
        lines.append(p.open_slot(match.buffer.data))
    return lines


_AXIS_KINDS = {
    IterVar.DataPar: "spatial",
    IterVar.CommReduce: "reduce",
    IterVar.Ordered: "scan",
    IterVar.Opaque: "opaque",
}


def _axes(p: Printer, b: S.Block, realize: S.BlockRealize | None, values: list[Expr] | None) -> list[Stmt]:
    """The lines that bind block variables; neighbours that just rename loops share one `T.axis.remap`."""
    lines: list[Stmt] = []
    run: list[int] = []

    def flush() -> None:
        if not run or values is None:
            return
        if len(run) == 1:
            lines.append(single(run[0]))
        else:
            kinds = "".join([_AXIS_KINDS[b.iter_vars[i].iter_type][0].upper() for i in run])
            names = [define(b.iter_vars[i]) for i in run]
            remap = t(p, "axis.remap").call(literal(kinds), list_([values[i] for i in run]))
            lines.append(assign(bare_tuple(names), remap))
        run.clear()

    def define(axis: IterVar) -> Expr:
        return p.define(axis.var, axis.var.name).of(axis)

    def single(i: int) -> Stmt:
        axis = b.iter_vars[i]
        dom = _axis_domain(p, axis.dom)
        kind = t(p, f"axis.{_AXIS_KINDS.get(axis.iter_type, 'opaque')}")
        return assign(define(axis), kind.call(dom, *([] if values is None else [values[i]])))

    for i, axis in enumerate(b.iter_vars):
        if realize is not None and p.config.syntax_sugar and _renames(p, axis, realize.iter_values[i]):
            run.append(i)
        else:
            flush()
            lines.append(single(i))
    flush()
    return lines


def _axis_domain(p: Printer, dom: Range | None) -> Expr:
    if dom is None:
        return Expr(("None",))
    if _is_zero(dom.min):
        return p.expr(dom.extent)
    return Expr(("(", p.expr(dom.min), ", ", stop_doc(p, dom.min, dom.extent), ")"))


def _renames(p: Printer, axis: IterVar, value: PrimExpr) -> bool:
    """Whether the axis is spatial or a reduction over the very range of the loop that it is bound to."""
    if not isinstance(value, Var) or axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
        return False
    rng = p.facts.get(id(value))
    dom = axis.dom
    if rng is None or dom is None or axis.var.dtype != value.dtype:
        return False
    return _same(rng[0], dom.min) and _same(rng[1], dom.extent)


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value and a.dtype == b.dtype
    return a is b
