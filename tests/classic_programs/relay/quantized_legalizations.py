import numpy as np
import tvm
from tvm import relay
from tvm.relay.qnn.op import canonicalizations, legalizations
from tvm.relay.qnn.op.layout_conversions import convert_qnn_conv2d

rng = np.random.default_rng(0)
scale, zero = relay.const(0.05), relay.const(7)


def run(mod, *args):
    return relay.create_executor("debug", mod).evaluate()(*args).numpy()


# A function of one byte is a table of 256.
table = canonicalizations.create_integer_lookup_table(np.tanh, scale, zero, relay.const(1 / 128), relay.const(128))
assert table.shape == (256,) and table[7] == 128 and table.dtype == "uint8"
x = relay.var("x", shape=(256,), dtype="int8")
numbers = np.arange(-128, 128).astype("int8")
looked = canonicalizations.create_integer_lookup_op(
    x, np.tanh, scale, zero, relay.const(1 / 128), relay.const(0), in_dtype="int8", out_dtype="int8"
)
wanted = np.clip(np.round(np.tanh((numbers.astype("float32") - 7) * 0.05) * 128), -128, 127)
np.testing.assert_allclose(run(tvm.IRModule.from_expr(relay.Function([x], looked)), numbers), wanted, atol=1)

# Products in the types that a target has.
data, weight = relay.var("data", shape=(2, 8), dtype="int8"), relay.var("weight", shape=(3, 8), dtype="uint8")
words = {"units": 3, "out_dtype": "int32"}
dense = relay.qnn.op.dense(data, weight, relay.const(3), relay.const(-2), scale, relay.const(0.5), **words)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data, weight], dense)))
d, w = rng.integers(-128, 128, (2, 8)).astype("int8"), rng.integers(0, 256, (3, 8)).astype("uint8")
want = (d.astype("int32") - 3) @ (w.astype("int32") + 2).T
np.testing.assert_array_equal(run(mod, d, w), want)
call = mod["main"].body
types = [a.checked_type for a in call.args] + [call.checked_type]
for helper, op in (
    (legalizations.helper_change_dtypes_to_uint8_int8, relay.qnn.op.dense),
    (legalizations.helper_change_dtypes_to_int8, relay.qnn.op.dense),
    (legalizations.helper_change_dtypes_to_uint8, relay.qnn.op.dense),
    (legalizations.helper_change_dtypes_to_be_same, relay.qnn.op.dense),
    (legalizations.helper_no_fast_int8_hw_legalization, relay.nn.dense),
):
    made = helper(call.attrs, call.args, types, op)
    again = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(mod["main"].params, made)))
    np.testing.assert_array_equal(run(again, d, w), want, err_msg=helper.__name__)
bytes_ = [relay.TensorType((2, 8), "uint8"), relay.TensorType((3, 8), "int8")]
assert legalizations.helper_change_dtypes_to_uint8_int8(call.attrs, call.args, bytes_, relay.qnn.op.dense) is None


# A hook of a target.
@legalizations.qnn_dense_legalize.register("metal")
def for_metal(attrs, inputs, types):
    return legalizations.helper_no_fast_int8_hw_legalization(attrs, inputs, types, relay.nn.dense)


try:
    with tvm.target.Target("metal"):
        plain = relay.qnn.transform.Legalize()(mod)
    assert (
        "qnn" not in str(plain["main"].body) and legalizations.legalize_qnn_dense(call.attrs, call.args, types) is None
    )
    np.testing.assert_array_equal(run(plain, d, w), want)
finally:
    relay.op.get("qnn.dense").reset_attr("FTVMQnnLegalize")

image, kernel = (
    relay.var("image", shape=(1, 4, 8, 8), dtype="uint8"),
    relay.var("kernel", shape=(6, 4, 3, 3), dtype="int8"),
)
conv = relay.qnn.op.conv2d(image, kernel, zero, relay.const(0), scale, scale, kernel_size=(3, 3), channels=6)
turned = convert_qnn_conv2d(conv.attrs, conv.args, [], ["NHWC", "default"])
assert (turned.attrs.data_layout, turned.attrs.kernel_layout) == ("NHWC", "HWIO")
assert legalizations.get_scalar_from_constant(zero) == 7 and legalizations.helper_align_up(33, 32) == 64
np.testing.assert_allclose(legalizations.hardswish_func(np.array([-4.0, 0, 3, 6])), [0, 0, 3, 6])
with tvm.target.Target("llvm -mcpu=cascadelake"):
    assert legalizations.is_fast_int8_on_intel()
