"""Passes for explicit memory in relay programs: ManifestAlloc, MemoryPlan, ManifestLifetimes; and `values_again`, the way back.

The virtual machine and the ahead-of-time entry plan memory themselves, below the language. These passes are for users who inspect or change
the memory of a program. Their results are ordinary relay programs, which print, parse and run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir import FuncType, IRModule, Op, TensorType, TupleType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.backend.planning.memory_plan import Storage, align, plan
from tilewright.relay.cards.relations import Dim, is_any, tensor_type
from tilewright.relay.expr import Call, Constant, Expr, Function, Let, RefWrite, Tuple, TupleGetItem, Var, const
from tilewright.relay.functor import ExprMutator, contains, free_vars, let_chain, lets_around, post_order, substitute
from tilewright.relay.op import memory, vm
from tilewright.relay.op.program.manifest import alloc_storage, tensors_of
from tilewright.relay.rewriting import card_of, is_op
from tilewright.relay.transform.byoc.annotations import is_external, own_functions
from tilewright.relay.transform.effects import calls_unknown
from tilewright.relay.transform.functional.normal_forms import ToANormalForm
from tilewright.relay.transform.fusion.fuse_ops import FuseOps
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.runtime import cpu
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import VirtualDevice
from tilewright.tir.buffer import DATA_ALIGNMENT

STORAGE, TENSOR, KILL = "memory.alloc_storage", "memory.alloc_tensor", "memory.kill"
INVOKE, SHAPE_FUNC, RESHAPE = "vm.invoke_tvm_op", "vm.shape_func", "vm.reshape_tensor"


def is_kernel_call(e: Expr) -> bool:
    """Whether an expression is a call of a primitive function."""
    return type(e) is Call and isinstance(e.op, Function) and e.op.is_primitive


def is_static(t: Type) -> bool:
    return all([isinstance(x, TensorType) and all([hasattr(d, "value") for d in x.shape]) for x in tensors_of(t)])


def size_of(t: TensorType) -> int:
    """The bytes of a tensor of static shape."""
    return int(np.prod(t.concrete_shape, dtype=np.int64)) * t.dtype.bytes


class Lets:
    """A chain of bindings to which bindings are added."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Expr]] = []

    def bind(self, name: str, value: Expr, t: Type | None = None) -> Var:
        """Binds a value to a new variable, and returns the variable."""
        var = Var(f"{name}_{len(self.bindings)}", t)
        self.bindings.append((var, value))
        return var

    def around(self, body: Expr) -> Expr:
        """The chain of lets with these bindings and a body."""
        return lets_around(self.bindings, body)


class _Chains(ExprMutator):
    """Rewrites chains of lets one binding after another."""

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)

    def visit_let(self, let: Let) -> Expr:
        bindings, body = let_chain(let)
        lets = Lets()
        for var, value in bindings:
            self.binding(lets, var, value)
        return lets.around(self.visit(body))

    def binding(self, lets: Lets, var: Var, value: Expr) -> None:
        """Adds the bindings that replace a binding."""
        lets.bindings.append((var, self.visit(value)))


class _Manifest(_Chains):
    def __init__(self, device: VirtualDevice) -> None:
        super().__init__()
        self.device = device

    def binding(self, lets: Lets, var: Var, value: Expr) -> None:
        if not is_kernel_call(value):
            super().binding(lets, var, value)
            return
        assert isinstance(value, Call) and isinstance(value.op, Function)
        func, args = value.op, [self.visit(a) for a in value.args]
        result = type_of(value) or type_of(var) or func.ret_type
        from tilewright.relay.backend.te_compiler import is_view

        if is_view(func) and isinstance(result, TensorType) and is_static(result):
            shape = const(np.array(result.concrete_shape, np.int64))
            lets.bindings.append((var, vm.reshape_tensor(args[0], shape, result.concrete_shape)))
            return
        assert result is not None
        leaves = [t for t in tensors_of(result) if isinstance(t, TensorType)]
        shapes = self.shapes(lets, func, args, leaves) if not is_static(result) else [None] * len(leaves)
        outputs = [self.tensor(lets, t, s) for t, s in zip(leaves, shapes, strict=True)]
        lets.bind("done", vm.invoke_tvm_op(func, Tuple(tuple(args)), Tuple(tuple(outputs))))
        lets.bindings.append((var, memory.to_tuple_type(result, outputs)))

    def tensor(self, lets: Lets, t: TensorType, shape: Expr | None) -> Var:
        """Binds newly allocated memory for a tensor, and returns its variable. shape: the shape at run time, if the type is dynamic."""
        if shape is None:
            extents = t.concrete_shape
            known: Sequence[Dim] = extents
            shape = const(np.array(extents, np.int64))
            size: Expr = const(np.int64(align(size_of(t))))
        else:
            known = t.shape
            from tilewright.relay.op import lookup

            size = lookup("multiply")(lookup("prod")(shape), const(np.int64(t.dtype.bytes)))
        storage = lets.bind(
            "storage", memory.alloc_storage(size, shape, const(np.int64(DATA_ALIGNMENT)), self.device, t.dtype)
        )
        return lets.bind("tensor", memory.alloc_tensor(storage, const(np.int64(0)), shape, t.dtype, known))

    def shapes(self, lets: Lets, func: Function, args: Sequence[Expr], results: Sequence[TensorType]) -> Sequence[Expr]:
        """Binds the shapes of the results, which a shape function computes, and returns their variables."""
        by_data = needs_data(func)
        inputs = list(args) if by_data else [self.shape_of(lets, a) for a in args]
        outputs = [self.tensor(lets, tensor_type((len(t.shape),), "int64"), None) for t in results]
        flags = [by_data] * len(inputs)
        lets.bind("shaped", vm.shape_func(func, Tuple(tuple(inputs)), Tuple(tuple(outputs)), flags))
        return outputs

    def shape_of(self, lets: Lets, e: Expr) -> Expr:
        t = type_of(e)
        if isinstance(t, TupleType):
            return Tuple(tuple([self.shape_of(lets, TupleGetItem(e, i)) for i in range(len(t.fields))]))
        if isinstance(t, TensorType) and is_static(t):
            return const(np.array(t.concrete_shape, np.int64))
        return lets.bind("shape", vm.shape_of(e))


def needs_data(func: Function) -> bool:
    """Whether the shapes of a primitive function's results depend on values of its arguments."""
    from tilewright.relay.backend.vm.sizes import DynamicCall, named

    types = [named(p.checked_type, p.name_hint) for p in func.params]
    result = DynamicCall(func, types).result
    return any([is_any(d) for t in tensors_of(result) if isinstance(t, TensorType) for d in t.shape])


def _changed(mod: IRModule, mutator: ExprMutator) -> IRModule:
    with deep_recursion():
        return infer_module(
            mod.with_functions(
                {**mod.functions, **{g: mutator.rewritten_function(f) for g, f in own_functions(mod).items()}}
            )
        )


def _fused(mod: IRModule) -> bool:
    """Whether all calls of operators in a module are in primitive functions."""
    return not any(
        [
            type(e) is Call and type(e.op) is Op
            for f in own_functions(mod).values()
            for e in post_order(f, skip=lambda e: isinstance(e, Function) and e.is_primitive)
        ]
    )


def ManifestAlloc(cpu_virtual_device: Any = None) -> Pass:
    """Make the memory of intermediate tensors explicit: each call of a primitive function becomes allocations of its
    results and a call that writes into them.

    A program that is not fused is fused first. The result is in A-normal form. Dynamic shapes are computed by
    `vm.shape_func`. cpu_virtual_device: the device of the memory, by default cpu(0).

        let %y = %f(%x);
    -->
        let %storage_0 = memory.alloc_storage(64i64, [2i64, 3i64], 64i64, ...);
        let %tensor_1 = memory.alloc_tensor(%storage_0, 0i64, [2i64, 3i64], ...);
        let %done_2 = vm.invoke_tvm_op(%f, (%x,), (%tensor_1,));
        let %y = %tensor_1;
    """
    from tilewright.relay.op.program.devices import as_virtual_device

    device = as_virtual_device(cpu(0) if cpu_virtual_device is None else cpu_virtual_device)

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        if not _fused(mod):
            mod = FuseOps()(mod)
        return _changed(infer_module(ToANormalForm()(mod)), _Manifest(device))

    return Pass(PassInfo(0, "ManifestAlloc"), run)


def _used(e: Expr) -> list[Var]:
    """The free variables of an expression."""
    return [e] if isinstance(e, Var) else free_vars(e)


def _may_keep(e: Expr) -> bool:
    """Whether an expression writes a reference, or calls a function of the program, which may write one."""
    return isinstance(e, RefWrite) or (isinstance(e, Call) and calls_unknown(e) and type(e.op) is not Op)


class _Arenas(_Chains):
    """Merges the storages of static size of each chain of lets and device into one, which tensors share over time."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes = writes
        """Whether the program writes references, in which calls may keep their arguments."""

    def kept(self, e: Expr) -> bool:
        """Whether a reference may keep a value that an expression reads."""
        return self.writes and contains(e, _may_keep)

    def visit_let(self, let: Let) -> Expr:
        bindings, body = let_chain(let)
        bindings = [(var, self.visit(value)) for var, value in bindings]
        body = self.visit(body)
        chosen = self.planned(bindings, body)
        lets, arenas = Lets(), dict[str, Var]()
        offsets: dict[Expr, tuple[str, int]] = {}
        totals: dict[str, int] = {}
        for key, members in chosen.items():
            totals[key] = plan([s for _, s in members])
            offsets |= {var: (key, s.offset) for var, s in members}
        for var, value in bindings:
            if var in offsets:
                key, _ = offsets[var]
                if key not in arenas:
                    arenas[key] = self.arena(lets, value, totals[key])
                continue
            if is_op(value, TENSOR) and value.args[0] in offsets:
                (key, offset), (_, begin, shape) = offsets[value.args[0]], value.args
                assert isinstance(begin, Constant)
                value = value.replace(args=(arenas[key], const(np.int64(offset + int(begin.value))), shape))
            lets.bindings.append((var, value))
        return lets.around(body)

    def arena(self, lets: Lets, first: Expr, total: int) -> Var:
        assert isinstance(first, Call)
        shape, where = const(np.array([total], np.int64)), card_of(first, alloc_storage).virtual_device
        made = memory.alloc_storage(const(np.int64(total)), shape, first.args[2], where, "uint8")
        return lets.bind("arena", made)

    def planned(self, bindings: list[tuple[Var, Expr]], body: Expr) -> dict[str, list[tuple[Var, Storage]]]:
        """The storages that may be merged, by device, each with the steps at which it is live."""
        storages: dict[Var, Storage] = {}
        keys: dict[Expr, str] = {}
        holds: dict[Expr, set[Var]] = {}
        """Variable -> the storages that its value may use."""
        unknown: set[Var] = set()
        for step, (var, value) in enumerate(bindings):
            if is_op(value, STORAGE) and isinstance(size := value.args[0], Constant):
                storages[var] = Storage(int(size.value), step, step)
                keys[var] = str(card_of(value, alloc_storage).virtual_device)
                holds[var] = {var}
                continue
            read = {s for v in _used(value) for s in holds.get(v, ())}
            end = len(bindings) if self.kept(value) else step
            for s in read:
                storages[s].end = max(storages[s].end, end)
            if not is_op(value, INVOKE) and not is_op(value, SHAPE_FUNC) and not is_op(value, KILL):
                holds[var] = read
            if is_op(value, TENSOR) and not isinstance(value.args[1], Constant):
                # A storage with another use is not merged.
                for s in read:
                    unknown.add(s)
        for v in _used(body):
            for s in holds.get(v, ()):
                storages[s].end = len(bindings)
        found: dict[str, list[tuple[Var, Storage]]] = {}
        for place, storage in storages.items():
            if place not in unknown:
                found.setdefault(keys[place], []).append((place, storage))
        return {k: members for k, members in found.items() if len(members) > 1}


def MemoryPlan() -> Pass:
    """Merge storages of constant size that ManifestAlloc made: one for each chain of bindings and device. Tensors that
    are not live at the same time share bytes, as the planner of whole models places them.

    Storages of dynamic size, and storages of tensors with dynamic offsets, are not changed.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        writes = any([contains(f, lambda e: isinstance(e, RefWrite)) for f in own_functions(mod).values()])
        return _changed(infer_module(mod), _Arenas(writes))

    return Pass(PassInfo(0, "MemoryPlan"), run)


class _Lifetimes(_Chains):
    def __init__(self) -> None:
        super().__init__()
        self.outer: frozenset[Var] = frozenset()

    def visit_let(self, let: Let) -> Expr:
        bindings, body = let_chain(let)
        bindings = [(var, self.visit(value)) for var, value in bindings]
        body = self.visit(body)
        last: dict[Var, int] = {var: step for step, (var, _) in enumerate(bindings)}
        own = set(last)
        for step, (_, value) in enumerate(bindings):
            last |= dict.fromkeys([v for v in _used(value) if v in own], step)
        last |= dict.fromkeys([v for v in _used(body) if v in own], len(bindings))
        lets = Lets()
        for step, (var, value) in enumerate(bindings):
            lets.bindings.append((var, value))
            for v in [v for v in dict.fromkeys([*_used(value), var]) if last.get(v) == step]:
                if not is_op(value, KILL) and not isinstance(type_of(v), TupleType):
                    lets.bind("killed", memory.kill(v))
        return lets.around(body)


def ManifestLifetimes() -> Pass:
    """Insert `memory.kill` after the last use of each variable that a chain of lets binds.

    Variables that the result of the chain reads are not killed, nor are tuples, which have no memory of their own.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return _changed(infer_module(mod), _Lifetimes())

    return Pass(PassInfo(0, "ManifestLifetimes"), run)


class _Values(_Chains):
    """Replaces calls that write to tensors by calls that return values, and removes allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[Expr, Expr] = {}

    def binding(self, lets: Lets, var: Var, value: Expr) -> None:
        self.bound[var] = value
        if any([is_op(value, name) for name in (STORAGE, TENSOR, KILL, SHAPE_FUNC)]):
            return
        if not is_op(value, INVOKE):
            super().binding(lets, var, value)
            return
        func, inputs, outputs = [self.resolved(a) for a in value.args]
        if not isinstance(inputs, Tuple) or not isinstance(outputs, Tuple):
            raise TVMError(f"{INVOKE} takes its inputs and outputs as tuple expressions, but is\n{value}")
        args = tuple([self.visit(a) for a in inputs.fields])
        # Compilers fuse operators themselves, so primitive functions are inlined.
        if isinstance(func, Function) and not is_external(func):
            made = substitute(func.body, dict(zip(func.params, args, strict=True)))
        else:
            made = Call(func, args)
        t = func.checked_type
        assert isinstance(t, FuncType)
        result = lets.bind("result", made, t.ret_type)
        leaves = memory.from_tuple_type(t.ret_type, result)
        for out, leaf in zip(outputs.fields, leaves, strict=True):
            # Later reads of the tensor become reads of the result.
            self.memo_map[out] = leaf

    def resolved(self, e: Expr) -> Expr:
        """The value to which a variable is bound."""
        while isinstance(e, Var) and not is_op(self.bound.get(e), TENSOR) and e in self.bound:
            e = self.bound[e]
        return e

    def visit_var(self, var: Var) -> Expr:
        value = self.bound.get(var)
        if any([is_op(value, name) for name in (STORAGE, TENSOR)]):
            raise TVMError(
                f"%{var.name_hint} is read before a call has written it, or where that is not known;"
                " programs with explicit memory write each tensor once, in the chain of lets that reads it"
            )
        return var


def values_again(mod: IRModule) -> IRModule:
    """The module without explicit memory, for compilers, which plan memory themselves."""

    def explicit(e: Expr) -> bool:
        return is_op(e, INVOKE) or is_op(e, STORAGE)

    if not any([contains(f, explicit) for f in own_functions(mod).values()]):
        return mod
    with deep_recursion():
        mod = infer_module(mod)
        return infer_module(
            mod.with_functions(
                {**mod.functions, **{g: _Values().rewritten_function(f) for g, f in own_functions(mod).items()}}
            )
        )


__all__ = ["ManifestAlloc", "ManifestLifetimes", "MemoryPlan", "values_again"]
