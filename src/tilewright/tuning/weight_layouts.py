"""Kernels whose weights come in layouts of their own: measured without the copies that make the layouts.

A copy is a block that is annotated "meta_schedule.layout_rewrite_preproc". In a library that is measured, the kernel reads the weight in
its new layout, and a function beside it makes the copy, once, from the weight as the untuned kernel has it. Both have the weight's first
shape.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import GlobalVar, IRModule
from tilewright.tir import Block, BlockRealize, Buffer, DeclBuffer, PrimFunc, Stmt, Var, stmt_seq
from tilewright.tir.arithmetic import const_true
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers, body_list, with_statements
from tilewright.tir.transform.function.modules import PREPROC
from tilewright.tuning.measure import ENTRY


def layout_function(place: int) -> str:
    """The name of the function of a measured library that copies the parameter of this place, (as it was, as the kernel takes it)."""
    return f"{ENTRY}_layout_{place}"


def makes_layouts(func: PrimFunc) -> bool:
    """Whether a kernel begins with copies of weights."""
    if not isinstance(func.body, BlockRealize):
        return False
    return any([leaf.block.annotations.get(PREPROC) for leaf in leaves(func.body.block.body)])


def without_copies(mod: IRModule) -> IRModule:
    """The module without the copies of weights: what is counted, when it is told how fast it is. The same module where there are none."""
    functions = {
        g: _split(f)[0] if isinstance(f, PrimFunc) and makes_layouts(f) else f for g, f in mod.functions.items()
    }
    return mod if all([f is mod.functions[g] for g, f in functions.items()]) else mod.with_functions(functions)


def measured_module(kernel: PrimFunc) -> IRModule:
    """A kernel as ENTRY, without the copies of its weights, and the functions that make them."""
    own, copies = _split(kernel) if makes_layouts(kernel) else (kernel, {})
    functions: dict[Any, Any] = {GlobalVar(ENTRY): own.with_attr("global_symbol", ENTRY)}
    for place, copy in copies.items():
        functions[GlobalVar(layout_function(place))] = copy.with_attr("global_symbol", layout_function(place))
    return IRModule(functions)


def _split(kernel: PrimFunc) -> tuple[PrimFunc, dict[int, PrimFunc]]:
    """A kernel that takes weights in their new layouts, and the functions that copy them, by the places of the weights. Copies of what
    is no parameter stay."""
    root = kernel.body.block  # type: ignore[attr-defined]
    places = {kernel.buffer_map[p]: i for i, p in enumerate(kernel.params) if p in kernel.buffer_map}
    left: list[Stmt] = []
    copies: dict[int, PrimFunc] = {}
    views: dict[Buffer, Buffer] = {}
    for statement in body_list(root.body):
        found = [leaf.block for leaf in leaves(statement)]
        if len(found) != 1 or not found[0].annotations.get(PREPROC) or found[0].reads[0].buffer not in places:
            left.append(statement)
            continue
        old, new = found[0].reads[0].buffer, found[0].writes[0].buffer
        views[new] = new.replace(data=old.data)
        copies[places[old]] = _copy(kernel, old, new, statement)
    kept = tuple([b for b in root.alloc_buffers if b not in views])
    body = ReplaceBuffers(views).visit(with_statements(root.body, left))
    for view in views.values():
        body = DeclBuffer(view, body)
    whole = BlockRealize((), const_true(), root.replace(body=body, alloc_buffers=kept))
    return kernel.replace(body=whole), copies


def _copy(kernel: PrimFunc, old: Buffer, new: Buffer, statement: Stmt) -> PrimFunc:
    """The function (weight as it was, weight in the new layout) that a statement of a kernel does."""
    param = next(p for p, b in kernel.buffer_map.items() if b is old)
    taken = old.replace(data=Var(f"{old.name}_new", old.data.type_annotation), name=f"{old.name}_new")
    view = new.replace(data=taken.data)
    body = DeclBuffer(view, ReplaceBuffers({new: view}).visit(statement))
    root = BlockRealize((), const_true(), Block((), (), (), "root", stmt_seq(body)))
    handle = Var(f"{param.name}_new", "handle")
    return PrimFunc((param, handle), root, None, {param: old, handle: taken}, {"tir.noalias": True})
