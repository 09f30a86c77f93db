"""AOTLowerMain: the entry of a program of PrimFuncs, which runs with each way to call them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te, tir, topi
from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.backend.aot import AOTLowerMain, CallType
from tilewright.support.errors import TVMError
from tilewright.target import CompilationConfig, Target

RNG = np.random.default_rng(0)
X, W = [RNG.standard_normal(shape).astype("float32") for shape in ((2, 8), (4, 8))]


def program() -> IRModule:
    """relu(dense(x, constant)), what it is twice, and x."""
    x, w, d = [te.placeholder(s, "float32", n) for s, n in (((2, 8), "x"), ((4, 8), "w"), ((2, 4), "d"))]
    computes = {"op_dense": [x, w, topi.nn.dense(x, w)], "op_relu": [d, topi.nn.relu(d)]}
    functions = {
        GlobalVar(name): te.create_prim_func(tensors).with_attr("global_symbol", name)
        for name, tensors in computes.items()
    }
    dense, relu = functions
    a = relay.var("x", shape=(2, 8))
    b = relay.var("b")
    product = relay.op.call_lowered(dense, relay.Tuple((a, relay.const(W))))
    body = relay.Let(b, relay.Call(relu, [product]), relay.Tuple((b, relay.Tuple((b, a)))))
    return IRModule({**functions, GlobalVar("main"): relay.Function([a], body)})


@pytest.mark.parametrize("call_type", list(CallType))
def test_runs(call_type: CallType) -> None:
    target = Target("llvm")
    config = CompilationConfig([(tvm.cpu(0), target)])
    mod = AOTLowerMain(mod_name="net", config=config, call_type=call_type)(program())
    entry = mod["__tvm_main__"]
    assert (
        entry.attrs["global_symbol"] == "tvmgen_net___tvm_main__"
        and [g for g in mod.functions if g.name_hint == "main"] == []
    )
    assert str(entry).count(f"T.{('call_packed', 'call_cpacked', 'call_extern')[call_type]}(") == 2
    lib = tvm.build(mod, target=target)
    x = tvm.nd.array(X)
    out = [tvm.nd.array(np.zeros(shape, "float32")) for shape in ((2, 4), (2, 4), (2, 8))]
    lib["tvmgen_net___tvm_main__"](x, *out)
    want = np.maximum(X @ W.T, 0)
    for found, expected in zip(out, (want, want, X), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_refused() -> None:
    config = CompilationConfig([(tvm.cpu(0), Target("llvm"))])
    x = relay.var("x", shape=(2, 2))
    with pytest.raises(TVMError, match="main holds a Call"):
        AOTLowerMain("net", config, CallType.Packed)(IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))
    mod = program()
    (relu,) = [g for g in mod.functions if g.name_hint == "op_relu"]
    wrong = mod.with_functions({**mod.functions, GlobalVar("main"): relay.Function([x], relay.Call(relu, [x]))})
    with pytest.raises(TVMError, match=r"argument 0 must be float32\[2, 4\], but is float32\[2, 2\]"):
        AOTLowerMain("net", config, CallType.Packed)(wrong)


@pytest.mark.parametrize("call_type", list(CallType))
def test_errors_of_operators(call_type: CallType) -> None:
    """An operator that fails makes the entry fail."""
    target = Target("llvm")
    a, b = [tir.decl_buffer((2,), "float32", name) for name in "ab"]
    params = {tir.Var("pa", "handle"): a, tir.Var("pb", "handle"): b}
    first, one = (tir.const(0, "int32"),), tir.const(1.0, "float32")
    body = tir.AssertStmt(tir.BufferLoad(a, first) > 0, tir.StringImm("not positive"), tir.BufferStore(b, one, first))
    op, x = GlobalVar("op_checked"), relay.var("x", shape=(2,))
    func = tir.PrimFunc(list(params), body, None, params).with_attr("global_symbol", "op_checked")
    mod = IRModule({op: func, GlobalVar("main"): relay.Function([x], relay.Call(op, [x]))})
    lowered = AOTLowerMain("net", CompilationConfig([(tvm.cpu(0), target)]), call_type)(mod)
    run = tvm.build(lowered, target=target)["tvmgen_net___tvm_main__"]
    run(tvm.nd.array(np.ones(2, "float32")), tvm.nd.array(np.zeros(2, "float32")))
    with pytest.raises(TVMError, match="not positive|op_checked failed"):
        run(tvm.nd.array(np.zeros(2, "float32")), tvm.nd.array(np.zeros(2, "float32")))
