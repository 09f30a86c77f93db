import tvm
from tvm import relay
from tvm.relay import ExprFunctor, ExprMutator, ExprVisitor

x = relay.var("x", shape=(2, 2))
y = relay.var("y", shape=(2, 2))
f = relay.Function([x, y], relay.multiply(relay.add(x, y), relay.add(x, relay.const(1.0))))


class Ops(ExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []

    def visit_op(self, op):
        self.names.append(op.name)

    def visit_constant(self, const):
        self.constant = float(const.data.numpy())


ops = Ops()
ops.visit(f)
assert sorted(ops.names) == ["add", "multiply"] and ops.constant == 1.0


class ToSubtract(ExprMutator):
    def visit_call(self, call):
        new = super().visit_call(call)
        return relay.subtract(*new.args) if new.op == relay.op.get("add") else new


g = ToSubtract().visit(f)
assert relay.analysis.list_op_freqs(tvm.IRModule.from_expr(g)) == {"subtract": 2, "multiply": 1}


class Depth(ExprFunctor):
    def visit_var(self, var):
        return 0

    def visit_constant(self, const):
        return 0

    def visit_call(self, call):
        return 1 + max(self.visit(a) for a in call.args)

    def visit_function(self, func):
        return self.visit(func.body)


assert Depth().visit(f) == 2
try:
    Depth().visit(relay.Tuple([x]))
except NotImplementedError:
    pass
else:
    raise AssertionError("no visitor of tuples")
