"""docs/operators.md lists the operators of all cards."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tilewright.relay import op
from tilewright.relay.cards.card import OpCard, cards, signature
from tilewright.relay.op import names
from tilewright.relay.op.data_dependent.dynamic import Dynamic

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
HEAD = """# Operators of relay

All operators, with the signatures of their constructors `relay.<name>`. Generated from the operator cards by
`pytest tests/relay_op/test_operator_list.py --update`.

| column | values |
|---|---|
| fusion | element-wise, broadcast, injective, reduction, output (takes an epilogue, as products do), or opaque (never fused) |
| gradient | yes; `-`: the adjoint is zero; no: an error states why |

- Operators under `dyn` take an attribute as an argument. A static operator that is given an expression for that attribute becomes the
  dynamic one; `relay.transform.DynamicToStatic` replaces it by the static one if the value becomes known.
- Operators under `vm` are the kernels of operators whose number of results depends on the data.
- [Out-of-bounds indices and division by zero](out_of_bounds.md) have a page of their own.
"""
GROUPS = {
    "": "Tensors",
    "nn": "Neural networks",
    "image": "Images",
    "vision": "Object detection",
    "random": "Random numbers",
    "annotation": "Annotations",
    "dyn": "Operators with attributes as arguments",
    "vm": "Kernels for results of data-dependent size",
}
KINDS = {0: "element-wise", 1: "broadcast", 2: "injective", 3: "reduction", 4: "output", 7: "tuple", 8: "opaque"}


def one_line(text: str | None) -> str:
    """The first paragraph of a docstring, as a cell."""
    return " ".join((text or "").split("\n\n")[0].split()).replace("|", "\\|").replace("\\\\", "\\")


def arguments(card: type[OpCard]) -> str:
    """The signature without annotations and spans."""
    parts = []
    for p in signature(card).parameters.values():
        if p.name == "span":
            continue
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        parts.append(f"{star}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}"))
    return ", ".join(parts)


def gradient_of(card: type[OpCard]) -> str:
    """Yes, no, or zero."""
    if card.flat:
        return "-"
    if isinstance(card.undifferentiable, str):
        return "no"
    return "yes"


def row(key: str, card: type[OpCard]) -> str:
    cells = [f"`{key}({arguments(card)})`", KINDS[card.fuse], gradient_of(card), one_line(inspect.getdoc(card))]
    return "| " + " | ".join(cells) + " |"


def page() -> str:
    lines = [HEAD]
    # By name where GROUPS says nothing: a set's own order changes with the hash seed.
    groups = sorted({k.rpartition(".")[0].split(".")[0] for k in cards()}, key=lambda g: ([*GROUPS, g].index(g), g))
    for group in groups:
        lines.append(
            f"## {GROUPS.get(group, group)}\n\n| operator | fusion | gradient | what it does |\n|---|---|---|---|"
        )
        keys = [k for k in sorted(cards()) if k.rpartition(".")[0].split(".")[0] == group]
        lines += [row(k, cards()[k]) for k in keys]
        lines.append("")
    lines.append("## Functions and other names\n\n| name | what it does |\n|---|---|")
    for name, function in sorted(names.FUNCTIONS.items()):
        shown = ", ".join(inspect.signature(function).parameters)
        lines.append(f"| `{name}({shown})` | {one_line(inspect.getdoc(function))} |")
    for name, key in sorted(names.ALIASES.items()):
        lines.append(f"| `{name}` | The constructor of `{key}`. |")
    return "\n".join(lines) + "\n"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update", default=False):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), (
        "docs/operators.md is out of date: pytest tests/relay_op/test_operator_list.py --update"
    )


CLASSIC = """
    log log2 log10 tan cos cosh sin sinh acos acosh asin asinh atan atanh exp erf sqrt rsqrt sigmoid floor ceil
    trunc round sign abs tanh negative logical_not bitwise_not add subtract multiply divide floor_divide
    trunc_divide power mod floor_mod trunc_mod logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    equal not_equal less less_equal greater greater_equal maximum minimum right_shift left_shift zeros zeros_like
    ones ones_like clip fixed_point_multiply fixed_point_multiply_per_axis concatenate einsum stack copy device_copy
    shape_of ndarray_size isnan isfinite isinf sliding_window cast cast_like reinterpret expand_dims transpose
    squeeze reshape argwhere scatter_elements scatter_nd reshape_like take full full_like arange meshgrid repeat
    tile reverse reverse_sequence where broadcast_to broadcast_to_like collapse_sum_like collapse_sum_to split
    strided_slice strided_set slice_like layout_transform reverse_reshape gather gather_nd sequence_mask one_hot
    unravel_index sparse_to_dense sparse_fill_empty_rows sparse_reshape segment_sum matrix_set_diag adv_index cumsum
    cumprod unique invert_permutation stft dft trilu argmax argmin sum all any max min mean variance std
    mean_variance mean_std prod logsumexp sort argsort topk searchsorted nn.conv1d nn.conv2d nn.conv3d
    nn.conv3d_transpose nn.conv2d_transpose nn.conv1d_transpose nn.softmax nn.fast_softmax nn.log_softmax
    nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.max_pool2d_grad
    nn.avg_pool2d_grad nn.global_max_pool1d nn.global_max_pool2d nn.global_max_pool3d nn.global_avg_pool1d
    nn.global_avg_pool2d nn.global_avg_pool3d nn.upsampling nn.upsampling3d nn.batch_flatten nn.bias_add nn.matmul
    nn.dense nn.contrib_dense_pack nn.fifo_buffer nn.relu nn.leaky_relu nn.prelu nn.pad nn.dilate nn.mirror_pad
    nn.lrn nn.l2_normalize nn.dropout nn.dropout_raw nn.batch_norm nn.instance_norm nn.layer_norm nn.group_norm
    nn.batch_matmul nn.sparse_dense nn.sparse_transpose nn.sparse_add nn.sparse_conv2d
    nn.contrib_conv2d_winograd_without_weight_transform nn.contrib_conv2d_winograd_weight_transform
    nn.contrib_conv2d_nchwc nn.contrib_depthwise_conv2d_nchwc nn.deformable_conv2d nn.bitpack nn.bitserial_conv2d
    nn.bitserial_dense nn.cross_entropy nn.cross_entropy_with_logits nn.nll_loss nn.depth_to_space nn.space_to_depth
    nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d nn.adaptive_avg_pool1d
    nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.correlation nn.space_to_batch_nd nn.batch_to_space_nd
    nn.conv2d_backward_weight nn.const image.resize1d image.resize2d image.resize3d image.crop_and_resize
    image.dilation2d image.affine_grid image.grid_sample vision.multibox_prior vision.multibox_transform_loc
    vision.non_max_suppression vision.all_class_non_max_suppression vision.get_valid_counts vision.roi_align
    vision.roi_pool vision.proposal vision.yolo_reorg random.threefry_key random.threefry_generate
    random.threefry_split random.uniform random.normal random.multinomial dyn.reshape dyn.tile dyn.broadcast_to
    dyn.zeros dyn.ones dyn.full dyn.one_hot dyn.topk dyn.strided_slice dyn.squeeze dyn.expand_dims
    dyn.sparse_to_dense dyn.image.resize2d dyn.nn.upsampling dyn.nn.upsampling3d dyn.nn.pad
""".split()
"""The public operators of classic TVM."""


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_operators_exist(name: str) -> None:
    assert callable(op.lookup(name))


def test_unknown_names_are_refused_with_near_ones() -> None:
    with pytest.raises(AttributeError, match="relay has no operator 'nn.conv2e'; near it: nn.conv2d"):
        op.lookup("nn.conv2e")


@pytest.mark.parametrize("key", [k for k, c in sorted(cards().items()) if issubclass(c, Dynamic)])
def test_dynamic_operators_take_the_attributes_of_static_ones(key: str) -> None:
    """Every attribute of a static operator is an argument or an attribute of the dynamic one."""
    card: Any = cards()[key]
    if key in ("dyn.prefix", "dyn.iota"):
        return
    known = {*inspect.signature(card.infer).parameters, *[f.name for f in card._fields]}
    assert {f.name for f in card.of._fields} <= known | {"span"}
