"""Hooks by which programs rewrite calls of operators for a target."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright import relay, topi
from tilewright.relay.op.target_rewrites import HOOKS, RewriteFunc
from tilewright.relay.testing.temp_op_attr import TempOpAttr


def module() -> tvm.IRModule:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, w)))


def test_a_variant_rewrites_calls_for_its_target() -> None:
    hook = RewriteFunc("dense_legalize", "nn.dense", "FTVMLegalize")
    with TempOpAttr("nn.dense", "FTVMLegalize", hook):

        @hook.register("cpu")
        def rewritten(attrs: Any, inputs: Any, types: Any) -> Any:
            assert len(types) == 3
            return relay.nn.matmul(inputs[0], inputs[1], transpose_b=True)

        with tvm.target.Target("llvm"):
            assert "nn.matmul" in str(relay.transform.Legalize()(module()))
        with tvm.target.Target("cuda"):
            assert "nn.matmul" not in str(relay.transform.Legalize()(module()))


@pytest.mark.parametrize("name", [name for hooks in HOOKS.values() for name in hooks])
def test_hooks_are_names_of_topi_or_qnn(name: str) -> None:
    owners = [owner for owner in (topi, topi.nn, relay.qnn.op.legalizations) if hasattr(owner, name)]
    hook = getattr(owners[0], name)
    assert hook(None, [], [], None) is None if name.endswith("layout") else hook(None, [], []) is None


def test_layout_transform() -> None:
    x = relay.var("x", shape=(1, 2, 3, 4))
    assert "axes=[1, 0, 2, 3]" in str(topi.nn.layout_transform(x, "NCHW", "CNHW"))
    with pytest.raises(ValueError, match="must have the same axes"):
        topi.nn.layout_transform(x, "NCHW", "NCW")
