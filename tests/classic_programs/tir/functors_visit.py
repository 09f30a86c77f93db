from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[i] * 2 + i


stores, loads, variables = [], [], []


def visit(node):
    if isinstance(node, tir.BufferStore):
        stores.append(node.buffer.name)
    elif isinstance(node, tir.BufferLoad):
        loads.append(node.buffer.name)
    elif isinstance(node, tir.Var):
        variables.append(node.name)


tir.stmt_functor.post_order_visit(f.body, visit)
assert (stores, loads) == (["B"], ["A"]) and "i" in variables


def doubled(node):
    if isinstance(node, tir.IntImm) and node.value == 2:
        return tir.IntImm("int32", 4)
    return None


body = tir.stmt_functor.ir_transform(f.body, None, doubled, ["IntImm"])
assert "A[i] * 4 + i" in str(f.with_body(body))
n = tir.Var("n", "int32")
g = tir.stmt_functor.substitute(tir.Evaluate(n + 1), {n: tir.const(5)})
assert str(g).strip() == "T.evaluate(T.Add(5, 1))"
