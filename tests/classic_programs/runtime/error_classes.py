import numpy as np
import tvm
from tvm import error, relay, te

assert issubclass(error.OpNotImplemented, NotImplementedError) and issubclass(error.OpAttributeInvalid, AttributeError)
assert issubclass(error.InternalError, tvm.TVMError) and issubclass(error.RPCError, tvm.TVMError)
assert issubclass(error.OpError, tvm.TVMError) and tvm.TVMError is tvm.error.TVMError


@tvm.error.register_error
class OwnError(RuntimeError):
    pass


@tvm.register_func("classic_programs.raises")
def fails(kind):
    if kind == "own":
        raise OwnError("of the program")
    raise KeyError("no such key")


f = tvm.get_global_func("classic_programs.raises")
for kind, cls in (("own", OwnError), ("other", KeyError)):
    try:
        f(kind)
    except cls as e:
        assert "of the program" in str(e) or "no such key" in str(e)
    else:
        raise AssertionError(kind)
A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
built = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
for bad in (
    (tvm.nd.empty((5,)), tvm.nd.empty((4,))),
    (tvm.nd.empty((4,), "int32"), tvm.nd.empty((4,))),
    (tvm.nd.empty((4,)),),
):
    try:
        built(*bad)
    except (tvm.TVMError, TypeError, ValueError) as e:
        assert isinstance(e, tvm.TVMError), type(e)
    else:
        raise AssertionError("wrong arguments")
try:
    relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.add(relay.var("x", shape=(2, 3)), relay.const(np.ones((4, 5), "float32"))))
    )
except tvm.error.DiagnosticError as e:
    assert isinstance(e, tvm.TVMError)
else:
    raise AssertionError("shapes do not fit")
