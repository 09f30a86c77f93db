import tvm
from tvm import relay
from tvm.relay.transform import mixed_precision as mp

assert "nn.conv2d" in mp.DEFAULT_ALWAYS_LIST and "add" in mp.DEFAULT_FOLLOW_LIST and "exp" in mp.DEFAULT_NEVER_LIST
x, w = relay.var("x", shape=(2, 4)), relay.var("w", shape=(3, 4))
dense = relay.nn.dense(x, w)
assert mp.get_generic_out_dtypes(dense, "float16") == ["float32", "float16"]
assert mp.get_generic_out_dtypes(relay.exp(x), "float16") == ["float16", "float16"]
assert mp.generic_never_op(relay.exp(x), "bfloat16") == [mp.MIXED_PRECISION_NEVER, "bfloat16", "bfloat16"]
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], relay.erf(dense))))


def types(module):
    return [
        str(c.checked_type.dtype) for c in relay.analysis.post_order(module["main"].body) if isinstance(c, relay.Call)
    ]


# erf keeps float32, until a program says that it follows the type of its operand.
assert types(relay.transform.ToMixedPrecision("float16")(mod))[-1] == "float32"
try:
    mp.register_func_to_op_list(["erf"])(mp.generic_follow_op)
    assert types(relay.transform.ToMixedPrecision("float16")(mod))[-1] == "float16"
finally:
    relay.op.get("erf").reset_attr("FTVMMixedPrecisionConversionType")
assert types(relay.transform.ToMixedPrecision("float16")(mod))[-1] == "float32"

kinds = relay.quantize.QAnnotateKind
with relay.quantize.qconfig(nbit_weight=6):
    config = relay.quantize.current_qconfig()
assert [config.get_nbit_by_kind(k) for k in (kinds.INPUT, kinds.WEIGHT, kinds.ACTIVATION)] == [8, 6, 32]
assert config.get_dtype_by_kind(kinds.ACTIVATION) == "int32"
