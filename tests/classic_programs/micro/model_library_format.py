import json
import tarfile

import numpy as np
import tvm
from tvm import relay
from tvm.micro import export_model_library_format
from tvm.relay.backend import Executor, Runtime

x = relay.var("x", shape=(1, 8), dtype="int8")
w = relay.const(np.ones((4, 8), "int8"))
y = relay.nn.dense(x, w, out_dtype="int32")
mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
    factory = relay.build(mod, tvm.target.Target("c"), executor=executor, runtime=Runtime("crt"), mod_name="net")
path = export_model_library_format(factory, "net.tar")
with tarfile.open(path) as tar:
    names = [n.removeprefix("./") for n in tar.getnames()]
    metadata = json.load(tar.extractfile(next(m for m in tar.getmembers() if m.name.endswith("metadata.json"))))
assert metadata["modules"]["net"]["model_name"] == "net"
assert "c" in str(metadata["modules"]["net"]["target"])
assert any(n.startswith("codegen/host/src/") and n.endswith(".c") for n in names)
assert "codegen/host/include/tvmgen_net.h" in names
assert any(n.startswith("src/") for n in names)
main = metadata["modules"]["net"]["memory"]["functions"]["main"]
assert main[0]["workspace_size_bytes"] >= 0
