import tvm

d = tvm.cpu(1)
assert d.device_type == 1 and d.device_id == 1 and str(d) == "cpu(1)"
assert tvm.cpu(0).exist and tvm.device("llvm", 0) == tvm.cpu(0) and tvm.device("cuda", 2) == tvm.cuda(2)
assert tvm.device("cpu") == tvm.cpu() and hash(tvm.cpu(0)) == hash(tvm.cpu(0))
assert tvm.opencl(0).device_type == 4 and tvm.metal(0).device_type == 8 and tvm.vulkan(0).device_type == 7
t = tvm.DataType("float32x4")
assert t.bits == 32 and t.lanes == 4 and str(t) == "float32x4" and t == "float32x4"
assert tvm.DataType("int8").bits == 8 and tvm.DataType("bool").bits == 1
assert tvm.DataType("handle") == "handle"
try:
    tvm.DataType("no_type")
except ValueError as error:
    assert "no_type" in str(error)
else:
    raise AssertionError
