"""Printing of what every dialect shares: modules, global names, operators, types, ranges."""

from __future__ import annotations

from tilewright.ir import GlobalVar, IRModule, Op, PointerType, PrimType, TupleType, Type, VoidType
from tilewright.script.doc import Blank, Comment, Expr, Line, Stmt, Suite, identifier, list_, literal, quoted, text
from tilewright.script.printer import Printer, data_hook, expr_hook, has_stmt_hook, register_prefix, stmt_hook

register_prefix("ir_prefix", "ir")


@stmt_hook(IRModule)
def _module(p: Printer, mod: IRModule) -> list[Stmt]:
    p.prefix("ir_prefix", "")
    body: list[Stmt] = []
    if mod.attrs:
        body.append(Line(p.prefix("ir_prefix", "module_attrs").call(p.data(dict(mod.attrs)))))
    if mod.global_infos:
        body.append(Line(p.prefix("ir_prefix", "module_global_infos").call(p.data(dict(mod.global_infos)))))
    p.module_functions = {gvar.name_hint for gvar in mod.functions}
    for gvar, func in mod.functions.items():
        with p.scope():
            p.function_name = gvar.name_hint
            if body:
                body.append(Blank())
            if has_stmt_hook(type(func)):
                body += p.stmts(func)
                continue
            # A function of a dialect without statements of its own stands in the metadata, for people in a comment.
            body.append(Comment(f"{gvar.name_hint}:\n{func!r}"))
            definition = p.prefix("ir_prefix", "def_function").call(quoted(gvar.name_hint), p.entry(func))
            body.append(Line(definition, node=func))
    return [Suite([f"class {p.config.name or 'Module'}"], body, mod, [f"@{p.config.ir_prefix}.ir_module"])]


@expr_hook(GlobalVar)
def _global_var(p: Printer, gvar: GlobalVar) -> Expr:
    elsewhere = p.module_functions is not None and gvar.name_hint not in p.module_functions
    if elsewhere or identifier(gvar.name_hint) != gvar.name_hint:
        return p.prefix("ir_prefix", "GlobalVar").call(quoted(gvar.name_hint))
    return text(f"{p.config.module_alias}.{gvar.name_hint}")


@expr_hook(Op)
def _op(p: Printer, op: Op) -> Expr:
    return p.prefix("ir_prefix", "Op").call(quoted(op.name))


@data_hook(Type)
def _type_data(p: Printer, t: Type) -> Expr:
    # The words of types are not types themselves.
    return p.entry(t)


@expr_hook(PrimType)
def _prim_type(p: Printer, t: PrimType) -> Expr:
    return p.prefix("tir_prefix", t.dtype)


@expr_hook(PointerType)
def _pointer_type(p: Printer, t: PointerType) -> Expr:
    element = t.element_type
    if isinstance(element, (PrimType, VoidType)):
        args = [literal("void" if isinstance(element, VoidType) else str(element.dtype))]
    else:
        args = [p.expr(element)]
    if t.storage_scope != "global":
        args.append(literal(t.storage_scope))
    return p.prefix("tir_prefix", "handle").call(*args)


@expr_hook(VoidType)
def _void_type(p: Printer, t: VoidType) -> Expr:
    return text("None")


@expr_hook(TupleType)
def _tuple_type(p: Printer, t: TupleType) -> Expr:
    return p.prefix("ir_prefix", "TupleType").call(list_([p.expr(f) for f in t.fields]))
