import tvm
from tvm import relay

x = relay.var("x", shape=(1, 4, 8, 8))
ws = [relay.var(f"w{i}", shape=(6, 4, 1, 1)) for i in range(3)]
outs = [relay.nn.conv2d(x, w, channels=6, kernel_size=(1, 1)) for w in ws]
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, *ws], relay.Tuple(outs))))
new = relay.transform.CombineParallelConv2D(min_num_branches=2)(mod)
freqs = relay.analysis.list_op_freqs(new)
assert freqs["nn.conv2d"] == 1 and freqs["strided_slice"] == 3 and freqs["concatenate"] == 1
d = relay.var("d", shape=(4, 8))
vs = [relay.var(f"v{i}", shape=(5, 8)) for i in range(3)]
dense = relay.transform.InferType()(
    tvm.IRModule.from_expr(relay.Function([d, *vs], relay.Tuple([relay.nn.dense(d, v) for v in vs])))
)
batched = relay.transform.CombineParallelDense(min_num_branches=2, to_batch=True)(dense)
assert relay.analysis.list_op_freqs(batched)["nn.batch_matmul"] == 1
flat = relay.transform.CombineParallelDense(min_num_branches=2, to_batch=False)(dense)
assert relay.analysis.list_op_freqs(flat)["nn.dense"] == 1
