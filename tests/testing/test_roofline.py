"""How near kernels are to what the machine allows."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay


def test_roofline() -> None:
    x, w = relay.var("x", shape=(64, 256)), relay.var("w", shape=(256, 256))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w))))
    params = {"w": np.ones((256, 256), "float32")}
    report = tvm.utils.roofline_analysis(mod, params, "llvm", tvm.cpu())
    assert report.calls and {c["Bound"] for c in report.calls} <= {"compute", "memory"}
    for call in report.calls:
        assert call["Duration (us)"].value > 0 and call["Percent of Theoretical Optimal"].ratio >= 0
    assert max(c["Estimated FLOPs"].value for c in report.calls) >= 2 * 64 * 256 * 256
    assert report.configuration["Estimated Peak Bandwidth (byte/second)"] > 1e8
    assert "Percent of Theoretical Optimal" in report.table()


def test_other_machines_are_refused() -> None:
    with pytest.raises(tvm.TVMError, match="the target must be llvm, and remote None"):
        tvm.utils.roofline_analysis(tvm.IRModule({}), {}, "cuda", tvm.cpu())
