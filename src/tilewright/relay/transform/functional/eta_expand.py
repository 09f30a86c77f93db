"""EtaExpand: turns constructors and global functions that are values into functions that call them."""

from __future__ import annotations

from tilewright.ir import BaseFunc, FuncType, GlobalVar, IRModule
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.adt import Constructor
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import ExprMutator
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.relay.typing.retype import fresh_type_params


class _Expand(ExprMutator):
    def __init__(self, mod: IRModule, constructors: bool, globals_: bool) -> None:
        super().__init__()
        self.mod, self.constructors, self.globals = mod, constructors, globals_

    def visit_call(self, call: Call) -> Expr:
        # The callee is not a value.
        args = self.visit_all(call.args)
        op = self.visit(call.op) if not isinstance(call.op, (Constructor, GlobalVar)) else call.op
        return call if args is call.args and op is call.op else Call(op, args, call.attrs, call.given_types, call.span)

    def visit_constructor(self, con: Constructor) -> Expr:
        if not self.constructors or not con.inputs:
            return con
        fields = [Var(f"eta{i}", t) for i, t in enumerate(con.inputs)]
        variables = con.type_data.type_vars if con.type_data is not None else ()
        return fresh_type_params(Function(fields, Call(con, tuple(fields))), variables)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        func = self.mod.functions.get(gvar)
        if not self.globals or not isinstance(func, Function):
            return gvar
        found = type_of(func)
        assert isinstance(found, FuncType)
        params = [Var(f"eta{i}", t) for i, t in enumerate(found.arg_types)]
        return fresh_type_params(Function(params, Call(gvar, tuple(params)), found.ret_type), found.type_params)


@module_pass(opt_level=1, name="EtaExpand")
class EtaExpand:
    """Replace constructors (`expand_constructor`) and global functions (`expand_global_var`) that are used as values by
    fn(x) { f(x) }.
    """

    def __init__(self, expand_constructor: bool = False, expand_global_var: bool = False) -> None:
        self.expand_constructor, self.expand_global_var = expand_constructor, expand_global_var

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        functions: dict[GlobalVar, BaseFunc] = {
            g: _Expand(mod, self.expand_constructor, self.expand_global_var).rewritten_function(f)
            if isinstance(f, Function)
            else f
            for g, f in mod.functions.items()
        }
        return infer_module(mod.with_functions(functions))
