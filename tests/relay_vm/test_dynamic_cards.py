"""Every operator with sizes known only at run time: compiled for unknown dimensions, run on those of its samples."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.relay.op.test_symbolic_cards import SAMPLES, flat, make_input, type_of
from tests.slow import first_of_each
from tilewright import relay, runtime
from tilewright.ir import IRModule, TensorType, TupleType, Type
from tilewright.relay.backend.vm import compile
from tilewright.relay.cards.card import OpCard, argument_names
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.op.program.checks import within
from tilewright.runtime.container import ADT
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import DiagnosticError
from tilewright.tir import Any as AnyDim

FIXED = set(
    """annotation.checked_indices auto_scheduler_layout_transform
dyn.broadcast_to dyn.full dyn.image.resize2d dyn.nn.pad dyn.ones dyn.reshape dyn.sparse_to_dense dyn.strided_slice dyn.tile dyn.zeros
gather_nd image.affine_grid image.dilation2d matrix_set_diag nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d
nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d nn.bitpack nn.bitserial_conv2d nn.contrib_conv2d_NCHWc
nn.contrib_conv2d_gemm_weight_transform nn.contrib_conv2d_gemm_without_weight_transform nn.contrib_conv2d_winograd_NCHWc
nn.contrib_conv2d_winograd_nnpack_weight_transform nn.contrib_conv2d_winograd_weight_transform
nn.contrib_conv2d_winograd_without_weight_transform nn.contrib_conv3d_winograd_weight_transform
nn.contrib_attention nn.contrib_conv3d_winograd_without_weight_transform nn.contrib_dense_pack nn.contrib_depthwise_conv2d_NCHWc
nn.contrib_conv2d_pairs nn.contrib_conv2d_strassen_NCHWc nn.contrib_dense_pairs nn.contrib_dense_strassen
nn.contrib_depthwise_conv2d_pairs
nn.contrib_add_windows nn.contrib_autotvm_template nn.contrib_interleave_phases
nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_backward_weight nn.conv2d_transpose nn.conv3d nn.conv3d_transpose nn.deformable_conv2d
nn.sparse_dense qnn.conv2d qnn.conv2d_transpose scatter_nd sparse_reshape squeeze strided_set unravel_index vision.multibox_prior""".split()
)  # fmt: skip
"""Operators that are not compiled with every extent unknown: some decide what is computed (a window, a panel, a number of axes), as their
rule says."""

AXES, LAST, WEIGHTS = (
    "its argument's length is the number of axes of the result",
    "the data's first axis is one of the last two, which hold the diagonal",
    "weights are transformed when a program is compiled: all of their extents decide how",
)
PINNED = {
    **dict.fromkeys(("dyn.ones-0", "dyn.zeros-0"), AXES),
    **dict.fromkeys([f"matrix_set_diag-{i}" for i in (1, 2, 3)], LAST),
    **dict.fromkeys([f"nn.contrib_conv2d_gemm_weight_transform-{i}" for i in (0, 1)], WEIGHTS),
    "nn.contrib_conv2d_winograd_nnpack_weight_transform-0": WEIGHTS,
    **dict.fromkeys([f"nn.contrib_conv{n}d_winograd_weight_transform-{i}" for n in (2, 3) for i in (0, 1)], WEIGHTS),
    **dict.fromkeys(
        ("nn.contrib_attention-0", "nn.contrib_attention-1"),
        "the build chooses it for heads, queries and keys of known numbers",
    ),
    **dict.fromkeys(
        [f"nn.contrib_{n}_strassen{c}-{i}" for n, c in (("dense", ""), ("conv2d", "_NCHWc")) for i in (0, 1)],
        "the build chooses it for data of known sizes",
    ),
    **dict.fromkeys(
        [f"nn.contrib_{n}_pairs-{i}" for n in ("conv2d", "depthwise_conv2d", "dense") for i in range(4)],
        "the build chooses it for data of known sizes",
    ),
    **dict.fromkeys([f"auto_scheduler_layout_transform-{i}" for i in range(3)], WEIGHTS),
    "nn.contrib_autotvm_template-0": "a record is one of all extents",
    "annotation.checked_indices-1": "each row of indices belongs to an axis of its own",
    "squeeze-0": "which axes are dropped depends on which have one place",
    **dict.fromkeys(("strided_set-0", "strided_set-1"), "a bound that is negative counts from the end"),
}
"""Samples of which no extent at all may be unknown, and why."""


def said(key: str, error: DiagnosticError) -> bool:
    """Whether the operator's own rule asks for what is not known; any other error is one of ours."""
    return (
        re.search(rf"{re.escape(key)}, argument \d+ \(\w+\): .*must (be known|be given|name|be constant)", str(error))
        is not None
    )


def unknown(t: Type, axes: int | None = None) -> Type:
    """The type with unknown dimensions: all, or the first `axes` of each tensor."""
    if isinstance(t, TupleType):
        return TupleType(tuple([unknown(f, axes) for f in t.fields]))
    assert isinstance(t, TensorType)
    shape = [AnyDim() if axes is None or i < axes else d for i, d in enumerate(t.shape)]
    return TensorType(tuple(shape), t.dtype)


def compiled(card: type[OpCard], attrs: Any, types: list[Type], inputs: list[Any]) -> VirtualMachine:
    """The operator compiled for these types; what must be constant is."""
    params = [relay.var(f"x{i}", t) for i, t in enumerate(types)]
    fixed = card.constant if issubclass(card, Dynamic) else ()
    names = argument_names(card)[0]
    args = [relay.const(inputs[i]) if fixed and names[i] in fixed else p for i, p in enumerate(params)]
    call = card.call(args, attrs)
    function = relay.Function(params, getattr(call, "tuple_value", call))
    return VirtualMachine(compile(relay.IRModule.from_expr(function), "llvm"))


@pytest.mark.parametrize(("key", "card", "sample"), first_of_each(SAMPLES))
def test_dynamic(key: str, card: type[OpCard], sample: Any, request: pytest.FixtureRequest) -> None:
    rng = np.random.default_rng(7)
    specs, attrs = sample
    inputs = [make_input(s, rng) for s in specs]
    types = [type_of(v) for v in inputs]
    try:
        vm = compiled(card, attrs, [unknown(t) for t in types], inputs)
    except DiagnosticError as error:
        # Then only the first one, of the first tensor, is unknown.
        assert said(key, error) and key in FIXED, str(error)
        try:
            vm = compiled(card, attrs, [unknown(t, 0 if i else 1) for i, t in enumerate(types)], inputs)
        except DiagnosticError as again:
            assert said(key, again) and request.node.callspec.id in PINNED, str(again)
            return
        assert request.node.callspec.id not in PINNED
    result = vm.run(*[list(v) if isinstance(v, tuple) else v for v in inputs])
    call = card.call([relay.var("x", t) for t in types], attrs)
    wanted = flat(getattr(call, "tuple_value", call).attrs.ref(*inputs))
    for got, want in zip(list(result) if isinstance(result, ADT) else [result], wanted, strict=False):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(
            got.numpy().astype("float64"), np.asarray(want).astype("float64"), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("k", [0, -1, 2])
@pytest.mark.parametrize("shape", [(2, 5), (2, relay.Any())])
def test_topk_of_less_than_one_is_all(k: int, shape: tuple[Any, ...]) -> None:
    x, number = relay.var("x", shape=shape), relay.var("k", shape=(1,), dtype="int64")
    found = relay.topk(x, number, ret_type="values", is_ascend=True)
    mod = IRModule.from_expr(relay.Function([x, number], found))
    data = np.random.default_rng(0).standard_normal((2, 5)).astype("float32")
    want = np.sort(data)[:, : k if k > 0 else 5]
    for kind in ("debug", "vm"):
        got = relay.create_executor(kind, mod, runtime.cpu(), "llvm").evaluate()(data, np.array([k])).numpy()
        np.testing.assert_array_equal(got, want)


def test_a_number_made_of_sizes_is_held_to_its_bounds() -> None:
    """What is known of it as an expression does not say that it lies between them."""
    x = relay.var("x", shape=(relay.Any(),), dtype="float32")
    count = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"))
    body = within.call([x, count], {"low": 2, "high": 3, "name": "the length"})
    machine = VirtualMachine(compile(IRModule.from_expr(relay.Function([x], body)), "llvm"), runtime.cpu())
    np.testing.assert_array_equal(machine.run(np.ones(3, np.float32)).numpy(), np.ones(3, np.float32))
    with pytest.raises(ValueError, match="the length must be from 2 to 3"):
        machine.run(np.ones(4, np.float32))
