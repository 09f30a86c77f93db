"""What is loaded to import a model and to run it from the cache: no part of the compiler that only compiling needs, and of ONNX only
its messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, save

from tilewright.relay.backend.model_cache import FEWEST_CALLS

PROGRAM = """
import sys
import numpy as np
import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.support.deferred import Deferred

mod, params = relay.frontend.from_onnx(sys.argv[1])
library = relay.build(mod, "llvm", params=params)
executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
executor.run(x=np.ones((4, 8), np.float32))
print(float(executor.get_output(0).numpy().sum()))
print(*sorted(n for n, m in sys.modules.items() if type(m) is Deferred))
print(*sorted(m for m in sys.modules if m.split(".")[0] in ("onnx", "tilewright")))
"""
UNUSED = (
    "tilewright.codegen.interp", "tilewright.codegen.llvm", "tilewright.driver", "tilewright.relay.analysis",
    "tilewright.relay.backend.compilation", "tilewright.relay.backend.kernels.machine_code", "tilewright.relay.backend.te_compiler",
    "tilewright.relay.transform", "tilewright.te", "tilewright.tir.schedule", "tilewright.tir.transform", "tilewright.topi",
    "tilewright.topi.nn", "tilewright.scheduling",
)  # fmt: skip


def model(path: Path) -> Path:
    """Products and sums in turn, more than a program that is not kept."""
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 8
    nodes = [helper.make_node("MatMul" if k % 2 else "Add", [f"t{k}" if k else "x", "w" if k % 2 else "b"], [f"t{k + 1}"])
             for k in range(FEWEST_CALLS + 8)]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in ("x", f"t{len(nodes)}")]
    values = [
        helper.make_tensor("w", TensorProto.FLOAT, [8, 8], weights.tobytes(), raw=True),
        helper.make_tensor("b", TensorProto.FLOAT, [8], weights[0].tobytes(), raw=True),
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], values)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_model_from_the_cache_loads_no_compiler(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(model(tmp_path / "model.onnx"))]
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    cold, warm = [
        subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.splitlines()
        for _ in range(2)
    ]
    assert cold[0] == warm[0]
    assert "tilewright.te.tensor" in cold[2].split()
    deferred, loaded = warm[1].split(), warm[2].split()
    assert not set(UNUSED) - set(deferred)
    assert not [m for m in loaded if m.split(".")[0] == "onnx"]
    assert not [
        m for m in loaded if m.startswith(("tilewright.te.", "tilewright.scheduling.", "tilewright.tir.transform."))
    ]
