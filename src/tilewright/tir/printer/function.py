"""PrimFuncs in TVMScript: parameters, attributes, and the root block that goes without saying."""

from __future__ import annotations

from tilewright.ir import IntImm, PointerType, TupleType, VoidType
from tilewright.script.doc import Comment, Expr, Line, Stmt, Suite, by_key, dict_, identifier, literal
from tilewright.script.printer import Printer, stmt_hook
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.printer.buffers import attributes, declaration, is_plain
from tilewright.tir.printer.exprs import type_doc
from tilewright.tir.stmt import Block, BlockRealize
from tilewright.tir.stmt import Stmt as TirStmt
from tilewright.tir.stmt_functor import pre_order_visit


@stmt_hook(PrimFunc)
def _function(p: Printer, func: PrimFunc) -> list[Stmt]:
    symbol = func.attrs.get("global_symbol")
    gvar_name, p.function_name = p.function_name, None
    name = identifier(gvar_name or p.config.name or symbol or "main")
    with p.scope():
        params: list[Expr] = []
        matches: list[Stmt] = []
        after: list[Stmt] = []
        used = _direct_uses(func)
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and id(param) not in used and _hides(p, param, buffer):
                doc = p.define(buffer, buffer.name)
                args, _ = attributes(p, buffer, doc, force_dtype=True, new_data=True)
                params.append(Expr((doc, ": ", p.prefix("tir_prefix", "Buffer").call(*args)), 0).of(param))
                after.append(p.open_slot(buffer.data))
            else:
                doc = p.define(param, param.name)
                params.append(Expr((doc, ": ", type_doc(p, param)), 0))
                after.append(p.open_slot(param))
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and not p.is_defined(buffer):
                source = p.expr(param)
                matches += declaration(p, buffer, "match_buffer", p.define(buffer, buffer.name), source)
                after.append(p.open_slot(buffer.data))
        body: list[Stmt] = []
        said = name
        if gvar_name is not None and gvar_name != name:
            # The name in the module is no name of Python.
            said = gvar_name
            body.append(Line(p.prefix("tir_prefix", "func_name").call(literal(said))))
        attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol" or v != said}
        if attrs:
            pairs = [(literal(k), _bool_doc(p, v)) for k, v in by_key(attrs)]
            body.append(Line(p.prefix("tir_prefix", "func_attr").call(dict_(pairs))))
        body += [*matches, *after, *_body(p, func)]
        header: list[str | Expr] = [f"def {name}(", *_joined(params), ")"]
        if not isinstance(func.ret_type, VoidType) and func.ret_type != TupleType(()):
            header += [" -> ", p.expr(func.ret_type)]
    options = ["private=True"] if symbol is None else []
    if _lacks_root(func.body):
        options.append("implicit_root=False")
    given = f"({', '.join(options)})" if options else ""
    return [Suite(header, body, func, [f"@{p.prefix('tir_prefix', 'prim_func')}{given}"])]


def _hides(p: Printer, param: Var, buffer: Buffer) -> bool:
    """Whether `A: T.Buffer(shape, dtype)` says all there is to say of a parameter and its buffer."""
    if p.is_defined(buffer) or p.is_defined(buffer.data) or type(param) is not Var:
        return False
    return is_plain(buffer) and not isinstance(param.type_annotation, PointerType)


def _lacks_root(body: TirStmt) -> bool:
    """Whether the parser would put a root block around the body that is not there."""
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return False
    return _has_block(body)


def _bool_doc(p: Printer, value: object) -> Expr:
    return p.prefix("tir_prefix", "bool").call(literal(value)) if isinstance(value, bool) else p.data(value)


def _joined(items: list[Expr]) -> list[str | Expr]:
    out: list[str | Expr] = []
    for item in items:
        out += [", ", item] if out else [item]
    return out


def _direct_uses(func: PrimFunc) -> set[int]:
    """Handle parameters that the body itself names; these cannot hide behind their buffers."""
    handles = {id(h) for h in func.buffer_map}
    used: set[int] = set()

    def look(node: object) -> bool:
        if isinstance(node, Var) and id(node) in handles:
            used.add(id(node))
        return True

    pre_order_visit(func.body, look)
    return used


def _body(p: Printer, func: PrimFunc) -> list[Stmt]:
    root = implicit_root(func.body) if p.config.syntax_sugar else None
    if root is None:
        return p.body(func.body)
    body: list[Stmt] = [Comment('with T.block("root"):'.replace("T.", f"{p.config.tir_prefix}."), root)]
    for buffer in root.alloc_buffers:
        body += declaration(p, buffer, "alloc_buffer", p.define(buffer, buffer.name))
        body.append(p.open_slot(buffer.data))
    return body + p.body(root.body)


def implicit_root(stmt: TirStmt) -> Block | None:
    """The block that a function with blocks has around its body, when it says nothing but allocations."""
    if not isinstance(stmt, BlockRealize) or stmt.iter_values:
        return None
    block, predicate = stmt.block, stmt.predicate
    if not (isinstance(predicate, IntImm) and predicate.value == 1) or block.name_hint != "root":
        return None
    if block.iter_vars or block.reads or block.writes or block.init or block.match_buffers or block.annotations:
        return None
    if block.alloc_buffers:
        return block
    if isinstance(block.body, BlockRealize):
        return block if block.body.block.iter_vars else None
    return block if _has_block(block.body) else None


def _has_block(stmt: TirStmt) -> bool:
    found: list[object] = []

    def look(node: object) -> bool:
        if isinstance(node, BlockRealize):
            found.append(node)
        return not found and isinstance(node, TirStmt)

    pre_order_visit(stmt, look)
    return bool(found)
