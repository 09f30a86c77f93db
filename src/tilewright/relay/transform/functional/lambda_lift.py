"""LambdaLift: turns local functions into global ones with additional parameters for captured variables."""

from __future__ import annotations

from tilewright.ir import BaseFunc, GlobalVar, IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.adt import Constructor
from tilewright.relay.analysis.expressions import free_type_vars
from tilewright.relay.analysis.sizes import named_extents, sizes_used
from tilewright.relay.expr import Call, Expr, Function, Let, Var
from tilewright.relay.functor import ExprMutator, free_vars, post_order, substitute
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.relay.typing.retype import fresh_type_params
from tilewright.tir import Var as SizeName

CLOSURE = "Closure"
"""Attribute of a lifted function that captures variables: called with them, it returns the function itself."""
LIFTED = "Lifted"
"""Attribute of a lifted function without captured variables."""


class _Lifter(ExprMutator):
    """Lifts the functions in the body of one global function.

    scope: the variables that are defined at the lifted function. sizes: the sizes in the outer lifted function's body, whose
    expressions have no types yet."""

    def __init__(
        self,
        home: str,
        lifted: dict[GlobalVar, Function],
        taken: set[str],
        scope: list[Var],
        sizes: dict[SizeName, None] | None = None,
    ) -> None:
        super().__init__()
        self.home, self.lifted, self.taken, self.scope, self.sizes = home, lifted, taken, scope, sizes

    def global_var(self, hint: str) -> GlobalVar:
        base = f"{self.home}_{hint}"
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return GlobalVar(name)

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else self.lift(fn, None)

    def visit_let(self, let: Let) -> Expr:
        chain: list[tuple[Let, Expr]] = []
        outside = len(self.scope)
        for node in self.chain_of(let):
            if isinstance(node.value, Function) and not node.value.is_primitive:
                value = self.lift(node.value, node.var)
            else:
                value = self.visit(node.value)
            if isinstance(value, GlobalVar):
                # Without captured variables the name is valid everywhere.
                self.memo_map[node.var] = value
            chain.append((node, value))
            self.scope.append(node.var)
        result: Expr = self.visit(chain[-1][0].body)
        del self.scope[outside:]
        for node, value in reversed(chain):
            named = isinstance(value, GlobalVar)
            result = self.memo_map[node] = result if named else node.replace(value=value, body=result)
        return result

    def visit_constructor(self, con: Constructor) -> Expr:
        # A constructor as a value becomes a function of its fields. Called constructors are handled elsewhere.
        fields = [Var(f"field{i}", t) for i, t in enumerate(con.inputs)]
        variables = con.type_data.type_vars if con.type_data is not None else ()
        return self.lift(Function(fields, Call(con, tuple(fields)), None, variables), None)

    def size_sources(self, sizes: dict[SizeName, None], known: list[Var]) -> list[Var]:
        """Variables from which a function can read the sizes that its known variables do not give."""
        told = {d for v in known for d in named_extents(v)}
        missing = [d for d in sizes if d not in told]
        if not missing:
            return []
        sources: dict[SizeName, Var] = {}
        for v in self.scope:
            for d in named_extents(v):
                sources.setdefault(d, v)
        return list(dict.fromkeys([sources[d] for d in missing if d in sources]))

    def lift(self, fn: Function, name: Var | None) -> Expr:
        """The expression that replaces a local function; `name` is the variable by which it calls itself."""
        hint = name.name_hint if name is not None else "lifted"
        gvar = self.global_var(hint)
        captured = [v for v in free_vars(fn) if v is not name and isinstance(self.memo_map.get(v, v), Var)]
        sizes = self.sizes if self.sizes is not None else sizes_used(post_order(fn))
        captured += self.size_sources(sizes, [*captured, *fn.params])
        inner = [Var(v.name_hint, type_of(v) or v.type_annotation) for v in captured]
        table: dict[Var, Expr] = dict(zip(captured, inner, strict=True))
        for v in free_vars(fn):
            if isinstance(self.memo_map.get(v), GlobalVar):
                table[v] = self.memo_map[v]
        # A polymorphic function is instantiated where it is captured: a call has the type at this place, a name does not.
        named = not inner and not free_type_vars(fn)
        if name is not None:
            table[name] = gvar if named else Call(gvar, tuple(inner))
        renamed = substitute(fn, table)
        assert isinstance(renamed, Function)
        nested = _Lifter(gvar.name_hint, self.lifted, self.taken, [*inner, *renamed.params], sizes)
        body = renamed.replace(body=nested.visit(renamed.body))
        if named:
            self.lifted[gvar] = body.with_attr(LIFTED, 1)
            return gvar
        result = type_of(fn)
        made = Function(inner, body, result, (), {CLOSURE: 1})
        self.lifted[gvar] = fresh_type_params(made, free_type_vars(made))
        return Call(gvar, tuple([self.visit(v) for v in captured]))


def lambda_lift(mod: IRModule) -> IRModule:
    """The module without local functions. Primitive functions stay at their calls."""
    mod = infer_module(mod)
    taken = {g.name_hint for g in mod.functions}
    lifted: dict[GlobalVar, Function] = {}
    functions: dict[GlobalVar, BaseFunc] = {}
    for g, f in mod.functions.items():
        if isinstance(f, Function) and not f.is_primitive and not f.attrs.get(CLOSURE):
            functions[g] = f.replace(body=_Lifter(g.name_hint, lifted, taken, list(f.params)).visit(f.body))
        else:
            functions[g] = f
    return infer_module(mod.with_functions({**functions, **lifted}))


def LambdaLift() -> Pass:
    """Make local functions global. A function that captures variables takes these first, returns the function, and has
    the attribute Closure=1. Recursive functions call themselves by their global name.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return lambda_lift(mod)

    return Pass(PassInfo(0, "LambdaLift"), run)
