import numpy as np
import tvm
from tvm import relay
from tvm.driver import tvmc
from tvm.driver.tvmc.model import TVMCModel, TVMCPackage, TVMCResult

x = relay.var("x", shape=(1, 8))
w = relay.var("w", shape=(4, 8))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
params = {"w": tvm.nd.array(np.random.rand(4, 8).astype("float32"))}
model = TVMCModel(mod, params)
tmp = tvm.contrib.utils.tempdir()
package = tvmc.compile(model, target="llvm", package_path=tmp.relpath("model.tar"))
assert isinstance(package, TVMCPackage)
data = np.random.rand(1, 8).astype("float32")
result = tvmc.run(package, device="cpu", inputs={"x": data})
assert isinstance(result, TVMCResult)
np.testing.assert_allclose(result.get_output("output_0"), data @ params["w"].numpy().T, rtol=1e-4)
model.save(tmp.relpath("saved.tar"))
assert TVMCModel(model_path=tmp.relpath("saved.tar")).mod["main"].params[0].name_hint == "x"
