"""FuseOps: turns the calls of one kernel into one primitive function.

A kernel has at most one heavy operator (its anchor). It includes the element-wise and broadcasting operators through which
all uses of its result lead (its epilogue), operators that lead only to these, and a halo of a constant around the result.
Without an anchor, chains of injective operators form kernels, up to a following reduction. "All uses lead
through" is post-dominance, so a kernel has one result.

A value inside a kernel is computed at each read, so reading a value twice doubles the work before it. Groups also stay
within the depth limit in this expanded form.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import IRModule, Op, TensorType
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.adt import Match
from tilewright.relay.cards.card import BROADCAST, COMM_REDUCE, INJECTIVE, OPAQUE, OUT_ELEMWISE
from tilewright.relay.expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from tilewright.relay.functor import ExprMutator, contains, post_order
from tilewright.relay.op.layers import padding
from tilewright.relay.rewriting import card_of, is_op, same_shape, static_shape, tensor_of, typed
from tilewright.relay.typing.bound_once import bound_once
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import set_type, type_of
from tilewright.scheduling.pairs import group_of
from tilewright.target import Target

DEFAULT_MAX_DEPTH = 256
EXPENSIVE = frozenset(
    (
        "exp",
        "tanh",
        "sigmoid",
        "erf",
        "log",
        "power",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tan",
        "divide",
        "nn.gelu",
        "nn.silu",
    )
)
"""Operators that are too costly to compute again for every element of a broadcast."""


class _Group:
    """A set of calls under union-find; `kind` is the heaviest fusion kind in it."""

    __slots__ = ("calls", "costly", "kind", "parent")

    def __init__(self, call: Call, kind: int, costly: bool) -> None:
        self.parent: _Group | None = None
        self.kind, self.costly = kind, costly
        self.calls = [call]

    def root(self) -> _Group:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def absorb(self, other: _Group) -> None:
        a, b = self.root(), other.root()
        if a is not b:
            b.parent = a
            a.kind, a.costly = max(a.kind, b.kind), a.costly or b.costly
            a.calls += b.calls


class _Graph:
    """The calls of one scope, their users, and immediate post-dominators."""

    def __init__(self, body: Expr) -> None:
        self.calls: list[Call] = []
        self.users: dict[Expr, list[Call]] = {}
        self.escapes: set[Expr] = set()
        self.escapes.add(body)
        for node in post_order(body, skip=lambda e: type(e) is Function):
            if type(node) is Call and type(node.op) is Op:
                self.calls.append(node)
                for a in node.args:
                    self.users.setdefault(a, []).append(node)
                    if type(a) is Tuple:
                        self.escapes.update(a.fields)
            elif type(node) is TupleGetItem:
                self.escapes.add(node.tuple_value)
            elif type(node) is Tuple:
                self.escapes.update(node.fields)
            elif type(node) not in (Var, Constant):
                # Operands of lets, ifs and function calls stay separate values.
                for child in _operands(node):
                    self.escapes.add(child)
        self.depth: dict[Expr, int] = {}
        self.dominator: dict[Expr, Call | None] = {}
        for call in reversed(self.calls):
            self._dominate(call)

    def _dominate(self, call: Call) -> None:
        found: Call | None = None
        users = self.users.get(call, [])
        if call not in self.escapes and users:
            found = users[0]
            for other in users[1:]:
                found = self._common(found, other)
        self.dominator[call] = found
        self.depth[call] = self.depth[found] + 1 if found is not None else 1

    def _common(self, a: Call | None, b: Call | None) -> Call | None:
        while a is not b:
            if a is None or b is None:
                return None
            if self.depth[a] < self.depth[b]:
                b = self.dominator[b]
            elif self.depth[b] < self.depth[a]:
                a = self.dominator[a]
            else:
                a, b = self.dominator[a], self.dominator[b]
        return a

    def between(self, source: Call, sink: Call) -> list[Call]:
        """The calls on paths from `source` to `sink`, including the sink."""
        found: dict[Call, None] = {sink: None}
        stack = list(self.users[source])
        while stack:
            node = stack.pop()
            if node not in found:
                found[node] = None
                stack += self.users.get(node, [])
        return list(found)


def _operands(node: Expr) -> Sequence[Expr]:
    from tilewright.relay.functor import children

    return children(node)


def _inputs(call: Call) -> list[Expr]:
    """The arguments of a call, with tuples replaced by their fields."""
    return [f for a in call.args for f in (a.fields if type(a) is Tuple else (a,))]


def kind_of(call: Call) -> int:
    """Fusion kind of a call. Calls with several results, or results of unknown type, are not fused."""
    return card_of(call).fuse if isinstance(typed(call).checked_type, TensorType) else OPAQUE


def adds_halo(call: Call) -> bool:
    """Whether a call pads a tensor of static shape by a constant: the last step of a kernel, which needs no copy."""
    if not is_op(call, "nn.pad") or static_shape(call) is None or not embedded(call.args[1]):
        return False
    card = card_of(call, padding.pad)
    return card.pad_mode == "constant" and min([n for width in card.pad_width for n in width], default=0) >= 0


def grows(source: Expr, user: Expr) -> bool:
    """Whether computing `source` where `user` reads it may compute more elements than it has."""
    if same_shape(source, user):
        return False
    have, want = static_shape(source), static_shape(user)
    return have is None or want is None or int(np.prod(want, dtype=np.int64)) > int(np.prod(have, dtype=np.int64))


class _Partition:
    def __init__(self, body: Expr, max_depth: int, fuse: bool) -> None:
        self.graph = _Graph(body)
        self.max_depth = max_depth
        self.kinds: dict[Expr, int] = {c: kind_of(c) for c in self.graph.calls}
        self.groups: dict[Expr, _Group] = {
            c: _Group(c, self.kinds[c], c.operator.name in EXPENSIVE) for c in self.graph.calls
        }
        self.order = {c: i for i, c in enumerate(self.graph.calls)}
        self.written: dict[Expr, int] = dict.fromkeys(self.graph.calls, 1)
        if fuse:
            self.extend_all(True)
            ends = self.wide_ends() if group_of(Target.current(True)) else []
            self.extend_all(False)
            for group, end in ends:
                # What no reader takes is better computed by the kernel that has it.
                if {*self.groups[end[0]].root().calls} == {*end}:
                    group.root().absorb(self.groups[end[0]])

    def extend_all(self, anchored: bool) -> None:
        for call in self.graph.calls:
            self.extend(call, anchored)

    def wide_ends(self) -> list[tuple[_Group, list[Call]]]:
        """Takes the ends of kernels away that only make their results wider, for readers to compute. A result of bytes then is stored as
        bytes: a microcontroller has little memory."""
        found = []
        for anchor in self.graph.calls:
            group = self.groups[anchor].root()
            if self.kinds[anchor] != OUT_ELEMWISE or anchor not in group.calls:
                continue
            chain = [anchor]
            while (after := self.graph.dominator[chain[-1]]) is not None and self.groups[after].root() is group:
                chain.append(after)
            bits = [tensor_of(c).dtype.bits for c in chain]
            last = len(chain) - 1 - bits[::-1].index(min(bits))
            if bits[-1] == bits[last] or chain[-1] in self.graph.escapes or self.graph.dominator[chain[-1]] is None:
                continue
            end = [c for c in self.graph.between(chain[last], chain[-1]) if c in group.calls]
            for c in end:
                group.calls.remove(c)
                self.groups[c] = _Group(c, self.kinds[c], c.operator.name in EXPENSIVE)
            for c in end[1:]:
                self.groups[end[0]].absorb(self.groups[c])
            found.append((group, end))
        return found

    def extend(self, call: Call, anchored: bool) -> None:
        """Merges the call's group with the post-dominating calls, as far as the kinds allow."""
        sink = self.graph.dominator[call]
        group = self.groups[call].root()
        if (
            sink is None
            or self.groups[sink].root() is group
            or (group.kind >= OUT_ELEMWISE) is not anchored
            or group.kind == OPAQUE
        ):
            return
        path = self.graph.between(call, sink)
        if anchored or group.kind == COMM_REDUCE:
            allowed = all([self.groups[p].root() is group or self.groups[p].root().kind <= BROADCAST for p in path])
            allowed = allowed and all([same_shape(p, call) for p in path])
            allowed = allowed or (group.kind == OUT_ELEMWISE and len(path) == 1 and adds_halo(sink))
        else:
            allowed = self.injective_path(call, group, path, sink) or self.into_epilogue(call, group, path, sink)
        if not allowed:
            return
        others = {self.groups[p].root() for p in path} - {group}
        if len(group.calls) + sum([len(g.calls) for g in others]) > self.max_depth:
            return
        written = self.written_out(group, others)
        if max(written.values()) > self.max_depth:
            return
        self.written |= written
        for p in path:
            group.absorb(self.groups[p])

    def written_out(self, group: _Group, others: set[_Group]) -> dict[Expr, int]:
        """Call that would join the group -> the number of operations for an element, if every value is computed at each read,
        except those that heavier operators store."""
        found: dict[Expr, int] = {}
        joined = {group, *others}
        for call in sorted([c for g in others for c in g.calls], key=self.order.__getitem__):
            total = 1
            for a in _inputs(call):
                if a in self.groups and self.groups[a].root() in joined:
                    total += found.get(a, self.written[a]) if self.kinds[a] < COMM_REDUCE else 1
            found[call] = total
        return found

    def injective_path(self, call: Call, group: _Group, path: Sequence[Call], sink: Call) -> bool:
        """Whether an injective group may be computed inside `sink`, for the indices that it reads."""
        for p in path:
            limit = COMM_REDUCE if p is sink and self.kinds[p] == COMM_REDUCE else INJECTIVE
            if self.groups[p].root().kind > limit:
                return False
        if group.costly and any([grows(call, p) for p in path]):
            return False
        return self.kinds[sink] != COMM_REDUCE or len(path) == 1

    def into_epilogue(self, call: Call, group: _Group, path: Sequence[Call], sink: Call) -> bool:
        """Whether element-wise operators end in the epilogue of one anchor. The epilogue then reads their operands (often narrower types),
        and computes them once for each element. None of the operators leads to the anchor itself."""
        anchored = self.groups[sink].root()
        if anchored.kind != OUT_ELEMWISE or group.kind > BROADCAST:
            return False
        for p in path:
            own = self.groups[p].root()
            if self.kinds[p] > BROADCAST or not same_shape(p, call) or (own.kind > BROADCAST and own is not anchored):
                return False
        return True


class _Extract(ExprMutator):
    """Replaces every group by a call of a primitive function."""

    def __init__(self, partition: _Partition, fuse: bool, linked: bool) -> None:
        super().__init__()
        self.partition, self.fuse, self.linked = partition, fuse, linked
        self.members: dict[_Group, set[Expr]] = {}
        for call, group in partition.groups.items():
            self.members.setdefault(group.root(), set()).add(call)

    def run(self, body: Expr) -> Expr:
        """`body` with its groups extracted. The last call of a group is replaced; the others are no longer reachable."""
        return self.visit(body)

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo_map
        stack = [expr]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            inputs = self.inputs(node)
            pending = [c for c in inputs if c not in memo]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            memo[node] = self.kernel(node) if node in self.partition.groups else self.rebuilt(node)
        return memo[expr]

    def rebuilt(self, node: Expr) -> Expr:
        """An expression outside of kernels, with new operands. It keeps its type, since inference does not visit typed calls."""
        new: Expr = self._table[type(node)](self, node)
        known = type_of(node)
        if new is not node and known is not None and type_of(new) is None:
            set_type(new, known)
        return new

    def visit_function(self, fn: Function) -> Expr:
        """A local function. Its body is fused separately."""
        return fn if fn.is_primitive else fuse_function(fn, self.partition.max_depth, self.fuse, self.linked)

    def inputs(self, node: Expr) -> list[Expr]:
        """Expressions that must be rewritten before `node`: the inputs of its group, or its own operands."""
        group = self.partition.groups.get(node)
        if group is None:
            from tilewright.relay.functor import flow_children

            return list(flow_children(node))
        found: dict[Expr, None] = {}
        members = self.members[group.root()]
        stack, seen = [node], set()
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            operands = e.fields if type(e) is Tuple else e.args if type(e) is Call else ()
            for a in operands:
                if a in members or type(a) is Tuple:
                    stack.append(a)
                elif not embedded(a, self.linked):
                    found[a] = None
        return list(found)

    def kernel(self, node: Expr) -> Expr:
        if is_op(node, "annotation.stop_fusion"):
            # The mark has done its work: its operand is a value of its own.
            return self.memo_map.get(node.args[0], node.args[0])
        body = _Body(self.members[self.partition.groups[node].root()], self.linked)
        result = body.visit(node)
        func = Function(tuple(body.params.values()), result, node.checked_type, (), {"Primitive": 1})
        typed(func)
        args = tuple([self.memo_map[a] for a in body.params])
        call = Call(func, args, None, (), getattr(node, "span", None))
        set_type(call, node.checked_type)
        return call


def embedded(e: Expr, linked: bool = False) -> bool:
    """Whether a constant is part of the kernel's code instead of an argument: a number, and with `linked` every constant."""
    return type(e) is Constant and (linked or e.data.ndim == 0)


class _Body(ExprMutator):
    """The body of a primitive function: copied members, with parameters in place of inputs."""

    def __init__(self, members: set[Expr], linked: bool) -> None:
        super().__init__()
        self.members, self.linked = members, linked
        self.params: dict[Expr, Var] = {}

    def visit(self, expr: Expr) -> Expr:
        if expr in self.memo_map:
            return self.memo_map[expr]
        if expr in self.members or type(expr) is Tuple:
            result: Expr = self._table[type(expr)](self, expr)
        elif embedded(expr, self.linked):
            result = expr
        else:
            result = self.params[expr] = Var(f"p{len(self.params)}", typed(expr).checked_type)
        self.memo_map[expr] = result
        return typed(result)


def fuse_function(func: Function, max_depth: int, fuse: bool = True, linked: bool = False) -> Function:
    """The function with calls of primitive functions. Without `fuse`, every call becomes a separate kernel. linked: constants are in the
    kernels that read them."""
    with deep_recursion():
        partition = _Partition(func.body, max_depth, fuse)
        made = func.replace(body=_Extract(partition, fuse, linked).run(func.body))
        # Values that several scopes use are rewritten in each of them.
        return bound_once(made) if contains(made, lambda e: type(e) is Let or type(e) is Match) else made


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Group calls into primitive functions. With `fuse_opt_level` 0, each call is a primitive function. The option
    "relay.FuseOps.link_params" puts constants into the functions that read them.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        depth = int(ctx.config.get("relay.FuseOps.max_depth", DEFAULT_MAX_DEPTH))
        level = ctx.opt_level if fuse_opt_level < 0 else fuse_opt_level
        linked = bool(ctx.config.get("relay.FuseOps.link_params", False))
        functions = {
            g: fuse_function(f, depth, level >= 1, linked) if isinstance(f, Function) and not f.is_primitive else f
            for g, f in mod.functions.items()
        }
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(0, "FuseOps", (), ("types",), ("primitive_functions",)), run)


__all__ = ["FuseOps", "OUT_ELEMWISE", "fuse_function"]
