"""Transposed convolutions in each of their forms: by phases, or as products whose windows are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import seeds
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.op.convolution.windows import np_conv_transpose
from tilewright.scheduling import GraphPlan
from tilewright.target import Target

TARGETS = ["llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"]


def transposed(
    shape: Any, weight: np.ndarray, stride: Any = 1, pads: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    n = len(shape) - 2
    make = getattr(relay.nn, f"conv{n}d_transpose")
    each = [v if isinstance(v, tuple) else (v,) * n for v in (stride, dilation)]
    return make(
        relay.var("x", shape=shape), relay.const(weight), strides=each[0], padding=pads if isinstance(pads, tuple) else (pads,) * n,
        dilation=each[1], groups=groups, channels=weight.shape[1] * groups, kernel_size=weight.shape[2:],
    )  # fmt: skip


def forms(call: Any, target: str) -> tuple[str, str, list[str]]:
    """(the name of the decision, what the model chose, the choices)."""
    with Target(target), GraphPlan(target) as plan:
        relay.transform.TransposedConvolutions()(tvm.IRModule.from_expr(call))
    ((name, choices),) = plan.space().items()
    return name, plan.values()[name], choices


@pytest.mark.parametrize("seed", seeds(12, 6))
def test_forms_compute_the_same(seed: int) -> None:
    """What each form computes is what the definition says, for strides, dilations, groups and cropped results of one to three axes."""
    rng = np.random.default_rng(seed)
    n, groups = 1 + seed % 3, int(rng.choice([1, 1, 2]))
    inner, outer = (int(v) for v in rng.integers(1, 12, 2))
    image, kernel, stride, dilation = (tuple(rng.integers(1, most, n).tolist()) for most in (6, 5, 4, 3))
    room = [(e - 1) * s + (k - 1) * d for e, s, k, d in zip(image, stride, kernel, dilation, strict=True)]
    before = [int(rng.integers(0, r // 2 + 1)) for r in room]
    after = [int(rng.integers(0, r - b + 1)) for r, b in zip(room, before, strict=True)]
    shape, weight = (int(rng.integers(1, 3)), inner * groups, *image), (inner * groups, outer, *kernel)
    x, w = (rng.standard_normal(s).astype("float32") for s in (shape, weight))
    expected = np_conv_transpose(x, w, list(stride), (before, after), list(dilation), [0] * n, groups)
    call = transposed(shape, w, stride, (*before, *after), dilation, groups)
    made = relay.transform.TransposedConvolutions()
    with Target("llvm"), GraphPlan("llvm") as plan:
        made(tvm.IRModule.from_expr(call))
    given: list[dict[str, Any]] = [{name: form} for name, choices in plan.space().items() for form in choices]
    for one in given or [{}]:
        with GraphPlan("llvm", one) as other:
            library = relay.build(tvm.IRModule.from_expr(call), "llvm")
        assert not other.refused
        executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
        executor.run(x=x)
        np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4, err_msg=str(one))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "weight", "stride", "pads", "form"),
    [
        ((1, 686, 6, 137), (686, 2, 3, 3), 2, 1, "planes"),
        ((8, 38, 6, 6), (38, 1, 3, 3), 1, 1, "planes"),
        ((1, 512, 28, 1), (512, 320, 5, 5), 1, (2, 0), "rows"),
        ((1, 21, 109, 109), (21, 13, 5, 5), 1, 2, "phases"),
        ((1, 64, 56, 56), (64, 32, 4, 4), 2, 1, "phases"),
    ],
)
def test_what_the_model_chooses(shape: Any, weight: Any, stride: int, pads: Any, form: str, target: str) -> None:
    name, chosen, choices = forms(transposed(shape, np.zeros(weight, "float32"), stride, pads), target)
    assert name.startswith("nn.conv2d_transpose(") and (chosen, choices) == (form, ["phases", "planes", "rows"])


def test_kernel_offsets_that_meet_no_element_are_left_out() -> None:
    """Of a window of 7 x 7 around the only place, the result keeps the middle."""
    w = np.random.default_rng(0).standard_normal((40, 8, 7, 7)).astype("float32")
    mod = tvm.IRModule.from_expr(transposed((1, 40, 1, 1), w, pads=3))
    with Target(TARGETS[0]), GraphPlan(TARGETS[0]):
        made = relay.transform.InferType()(relay.transform.TransposedConvolutions()(mod))
    (conv,) = [
        e for e in relay.functor.post_order(made["main"].body) if getattr(e, "op", None) is tvm.ir.Op.get("nn.conv2d")
    ]
    assert conv.args[1].checked_type.concrete_shape == (8, 40, 1, 1)
    assert "nn.contrib_add_windows" not in list_op_freqs(made)
