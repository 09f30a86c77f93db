"""PartitionGraph: turns every region into a global function for its compiler's code generator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tilewright.ir import BaseFunc, GlobalVar, IRModule, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import ExprMutator, flow_children, free_vars
from tilewright.relay.transform.byoc.annotations import (
    DEFAULT,
    compiler_of,
    end,
    inner,
    is_begin,
    is_border,
    is_composite,
    is_end,
    own_functions,
)
from tilewright.relay.transform.byoc.marked_regions import Region, RegionSet
from tilewright.relay.transform.byoc.merge_regions import Dependences, inputs_of
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.runtime import get_global_func
from tilewright.support.errors import TVMError


class _Prepared(ExprMutator):
    """Removes the borders of "default", and splits a tuple that leaves a region into its elements."""

    def visit_call(self, call: Call) -> Expr:
        if not is_border(call):
            return super().visit_call(call)
        value, compiler = self.visit(inner(call)), compiler_of(call)
        if compiler == DEFAULT:
            return value
        if is_end(call) and isinstance(value, Tuple):
            return Tuple(tuple([_ended(f, compiler) for f in value.fields]), value.span)
        return call if value is inner(call) else call.replace(args=(value,))

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive or is_composite(fn) else super().visit_function(fn)


def _ended(e: Expr, compiler: str) -> Expr:
    if isinstance(e, Tuple):
        return Tuple(tuple([_ended(f, compiler) for f in e.fields]), e.span)
    if is_begin(e):
        # The value passes through the region unchanged.
        return inner(e)
    return end(e, compiler)


class _Inside(ExprMutator):
    """The body of a region with its inputs replaced."""

    def visit_function(self, fn: Function) -> Expr:
        return fn


def identifier(text: str) -> str:
    """The text with only characters of a C identifier."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


class _Partitioner(ExprMutator):
    """Extracts the regions of one function."""

    def __init__(self, regions: RegionSet, name: Callable[[str], tuple[str, str]], bind_constants: bool) -> None:
        super().__init__()
        self.regions, self.name, self.bind_constants = regions, name, bind_constants
        self.made: dict[GlobalVar, Function] = {}
        self.results: dict[Expr, Expr] = {}

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo_map
        stack = [expr]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            region = self.regions.of(node) if is_end(node) else None
            waiting = _values(inputs_of(region)) if region is not None else list(flow_children(node))
            pending = [c for c in waiting if c not in memo]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            memo[node] = self.taken_out(node, region) if region is not None else self._table[type(node)](self, node)
        return memo[expr]

    def visit_call(self, call: Call) -> Expr:
        # A border without a region has no effect.
        new: Expr = self.visit(inner(call)) if is_border(call) else super().visit_call(call)
        return new

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive or is_composite(fn) else super().visit_function(fn)

    def taken_out(self, border: Expr, region: Region) -> Expr:
        """The expression that replaces a value that leaves a region."""
        value = inner(border)
        if value not in self.results:
            self.results |= self.extract(region)
        return self.results[value]

    def extract(self, region: Region) -> dict[Expr, Expr]:
        """Makes the region's function. Returns the replacement of each value that leaves the region."""
        symbol, prefix = self.name(region.compiler)
        body = _Inside()
        params: dict[Expr, Var] = {}
        for e in inputs_of(region):
            value = e if not is_border(e) else inner(e) if is_begin(e) else e
            if isinstance(value, Constant) and (self.bind_constants or value is e):
                body.memo_map[e] = value
                continue
            if value not in params:
                params[value] = Var(f"{prefix}_i{len(params)}", _known_type(value))
            body.memo_map[e] = params[value]
        outputs = region.outputs
        results = [body.visit(o) for o in outputs]
        whole = results[0] if len(results) == 1 else Tuple(tuple(results))
        unbound = [v.name_hint for v in free_vars(Function(tuple(params.values()), whole))]
        if unbound:
            raise TVMError(f"the region {symbol} uses the variable %{unbound[0]}, which is bound outside of it")
        attrs = {"Primitive": 1, "Compiler": region.compiler, "Inline": 1, "global_symbol": symbol}
        types = [_known_type(o) for o in outputs]
        function = Function(tuple(params.values()), whole, types[0] if len(types) == 1 else None, (), attrs)
        gvar = GlobalVar(symbol)
        self.made[gvar] = optimized(function, region.compiler)
        call = Call(gvar, tuple([self.visit(v) for v in params]))
        if len(outputs) == 1:
            return {outputs[0]: call}
        return {o: TupleGetItem(call, i) for i, o in enumerate(outputs)}


def _known_type(e: Expr) -> Type | None:
    return type_of(e) or (e.type_annotation if isinstance(e, Var) else None)


def _values(inputs: list[Expr]) -> list[Expr]:
    """The inputs of a region without the marks at its entry."""
    return list(dict.fromkeys([inner(e) if is_begin(e) else e for e in inputs]))


def optimized(function: Function, compiler: str) -> Function:
    """The function after `relay.ext.<compiler>.optimize`, a registered function on modules; unchanged without one."""
    name = f"relay.ext.{compiler}.optimize"
    change = get_global_func(name, allow_missing=True)
    if change is None:
        return function
    attrs = dict(function.attrs)
    # Passes do not rewrite a function that is one kernel.
    mod = infer_module(IRModule.from_expr(function.replace(attrs={})))
    changed = change(mod)
    if not isinstance(changed, IRModule) or not isinstance(changed["main"], Function):
        raise TVMError(f"{name} must return an IRModule with a main, but returned {type(changed).__name__}")
    return changed["main"].replace(attrs=attrs)


def _check_order(regions: RegionSet) -> None:
    """Raises TVMError if a region depends on itself."""
    known = Dependences(regions)
    entered: set[Region] = set()
    for e in regions.order:
        region = regions.of(e)
        if is_border(e):
            continue
        if region is None:
            known.note(e)
        elif region not in entered and region.nodes[-1] is e:
            entered.add(region)
            known.enter(region)


def PartitionGraph(mod_name: str = "default", bind_constants: bool = True) -> Pass:
    """Make every region a global function, and call it in the place of the region.

    The functions are named tvmgen_<mod_name>_<compiler>_<function>_<number> and have the attributes Compiler,
    Primitive, Inline and global_symbol, their name in the compiled code. bind_constants: constants that enter a region
    are part of the function; otherwise they are its arguments. A region with several results returns a tuple.

        %0 = annotation.compiler_begin(%x, compiler="dnnl");
        annotation.compiler_end(nn.relu(%0), compiler="dnnl")
    -->
        @tvmgen_default_dnnl_main_0(%x)
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        taken = {g.name_hint for g in mod.functions}
        functions: dict[GlobalVar, BaseFunc] = dict(mod.functions)
        with deep_recursion():
            own = {g: f.replace(body=_Prepared().visit(f.body)) for g, f in own_functions(mod).items()}
            own = own_functions(infer_module(mod.with_functions({**functions, **own})))
            for g, f in own.items():
                numbers = iter(range(1 << 30))

                def name(compiler: str, owner: str = g.name_hint, numbers: Iterator[int] = numbers) -> tuple[str, str]:
                    base = "_".join([identifier(part) for part in ("tvmgen", mod_name, compiler, owner) if part])
                    while True:
                        i = next(numbers)
                        if f"{base}_{i}" not in taken:
                            taken.add(f"{base}_{i}")
                            return f"{base}_{i}", f"{identifier(compiler)}_{i}"

                regions = RegionSet(f.body)
                _check_order(regions)
                partitioner = _Partitioner(regions, name, bind_constants)
                functions[g] = f.replace(body=partitioner.visit(f.body))
                functions |= partitioner.made
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(0, "PartitionGraph"), run)
