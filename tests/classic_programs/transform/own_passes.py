import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = A[i] + 1


@tvm.tir.transform.prim_func_pass(opt_level=1, name="AddAttribute")
def add_attribute(func, mod, ctx):
    return func.with_attr("seen", True)


class Ones:
    def transform_function(self, func, mod, ctx):
        def post(op):
            if isinstance(op, tir.IntImm) and op.value == 1:
                return tir.IntImm("int32", 2)
            return None

        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, post, ["IntImm"]))


ones = tir.transform.prim_func_pass(Ones, opt_level=0)()
mod = tvm.IRModule({"main": f})
seq = tvm.transform.Sequential([add_attribute, ones], opt_level=0, name="both")
with tvm.transform.PassContext(opt_level=1):
    new = seq(mod)
assert new["main"].attrs["seen"]
assert "A[i] + 2" in new.script() and "A[i] + 1" in mod.script()
assert add_attribute.info.name == "AddAttribute" and add_attribute.info.opt_level == 1
with tvm.transform.PassContext(opt_level=0):
    assert "seen" not in seq(mod)["main"].attrs
with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, ones)]}):
    assert "+ 2" in tvm.lower(mod).script()
