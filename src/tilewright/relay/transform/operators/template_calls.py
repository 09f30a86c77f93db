"""The templates of AutoTVM that operators have, and calls of them.

By operator and keys of the target:

    nn.dense          dense_nopack.x86, dense_pack.x86; on arm_cpu dense_gemm.arm_cpu too
    nn.batch_matmul   batch_matmul.x86
    nn.conv2d         conv2d_NCHWc.x86, depthwise_conv2d_NCHWc.x86; on arm_cpu conv2d_nchw_spatial_pack.arm_cpu,
                      conv2d_nchw_winograd.arm_cpu, depthwise_conv2d_nchw.arm_cpu

Of bytes on microcontrollers, after their weights were packed (ProductsOfPairs): dense_dsp.arm_cpu, conv2d_nhwc_dsp.arm_cpu,
depthwise_conv2d_nhwc_dsp.arm_cpu. A record of these decides about the kernel of the operator, which stays what it is. What is not packed
there, of bytes or floats: conv2d_nhwc.generic, depthwise_conv2d_nhwc.generic, and of bytes dense.generic.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.autotvm.task.dispatcher import has_records, recorded
from tilewright.autotvm.task.space.config import ConfigSpace
from tilewright.autotvm.task.space.transforms import SplitEntity
from tilewright.autotvm.task.task import create
from tilewright.autotvm.task.topi_integration import TaskExtractEnv
from tilewright.autotvm.task.workload import args_to_workload
from tilewright.ir import Op
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, const
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.convolution.paired_conv import conv2d_pairs, dense_pairs, depthwise_conv2d_pairs
from tilewright.relay.op.layers import products
from tilewright.relay.rewriting import card_of, constant_of, is_op, rewrite_calls, static_shape, tensor_of
from tilewright.relay.transform.operators.paired_products import BYTES, PRODUCTS
from tilewright.target import Target
from tilewright.target.triples import is_bare
from tilewright.topi.nn.winograd import winograd_transform_matrices
from tilewright.topi.utils import get_const_int, get_pad_tuple

logger = logging.getLogger("autotvm")

Candidate = tuple[str, list[Any]]
"""The name of a template, and its arguments; tensors are placeholders."""
PACKED = dict(zip(PRODUCTS, ("nn.conv2d", "nn.dense", "nn.conv2d"), strict=True))
"""What operators on packed weights were in the model."""
DTYPES = ("float32", "float64")


def with_templates(func: Function, target: Target) -> Function:
    """A function with calls of templates for operators that have a record. While tasks are extracted, it stays as it is, and the
    workloads of its operators are collected."""
    env = TaskExtractEnv.current
    tracing = env is not None and env.tracing
    if not (tracing or has_records()):
        return func
    return rewrite_calls(func, lambda call: _collected(call, target, env) if tracing else _applied(call, target))


def _collected(call: Call, target: Target, env: Any) -> None:
    wanted = env.wanted_relay_ops
    if wanted is None or Op.get(PACKED.get(call.operator.name, call.operator.name)) in wanted:
        for name, args in candidates(call, target):
            env.add_task(name, args)


def _applied(call: Call, target: Target) -> Expr | None:
    """The call of the template whose record is the fastest."""
    best: tuple[tuple[Any, ...], Any] | None = None
    for name, args in candidates(call, target):
        workload = args_to_workload(args, name)
        config = recorded(target, workload)
        if config is None or best is not None and (config.cost or 0) >= (best[1].cost or 0):
            continue
        if not _fits(config, name, args, target):
            logger.warning(
                "a record of %s is not used: its knobs are not those of the template here; %s", workload, config
            )
            continue
        best = workload, config
    if best is None:
        return None
    workload, config = best
    if is_op(call, *PRODUCTS):
        return call.replace(attrs=card_of(call).replace(decisions=json.dumps(config.get_other_option())))
    data, weight = call.args
    known, pack = constant_of(weight), PACKERS.get(workload[0])
    if known is not None and pack is not None:
        weight = const(np.ascontiguousarray(pack(known, config)))
    result = tensor_of(call)
    return constructor("nn.contrib_autotvm_template")(
        data,
        weight,
        workload=json.dumps(workload),
        config=json.dumps(config.to_json_dict()),
        shape=static_shape(call),
        dtype=str(result.dtype),
        span=call.span,
    )


def _fits(config: ConfigSpace, name: str, args: Sequence[Any], target: Target) -> bool:
    """Whether a configuration is one of a template's. Logs of others may have other knobs under the same name."""
    space = create(name, args, target).config_space
    assert space is not None
    return all(
        [
            knob in config and any([_same(config[knob], e) for e in known.entities])
            for knob, known in space.space_map.items()
        ]
    )


def _same(given: Any, known: Any) -> bool:
    """Whether two choices of a knob are the same; the outermost extent of a split follows from the others."""
    if isinstance(given, SplitEntity) and isinstance(known, SplitEntity):
        return list(given.size[1:]) == list(known.size[1:])
    return type(given) is type(known) and bool(given == known)


def candidates(call: Call, target: Target) -> Iterator[Candidate]:
    """The templates that compute a call, of floating-point tensors of static shapes, or of packed bytes, on a target."""
    if is_op(call, *PRODUCTS):
        yield _of_packed_bytes(call)
        return
    if not is_op(call, "nn.dense", "nn.batch_matmul", "nn.conv2d") or len(call.args) != 2:
        return
    if any([call.operator.get_attr(key) is not None for key in ("FTVMStrategy", "FTVMCompute")]):
        return
    shapes = [static_shape(a) for a in call.args]
    types = [str(tensor_of(e).dtype) for e in (*call.args, call)]
    of_bytes = tuple(types) == BYTES
    if "cpu" not in target.keys or None in shapes or not (of_bytes or (len({*types}) == 1 and types[0] in DTYPES)):
        return
    dtype = types[2]
    data, weight = (te.placeholder(shape, types[0]) for shape in shapes if shape is not None)
    if is_bare(target.triple):
        yield from _of_plain_loops(call, data, weight, dtype)
    if of_bytes:
        return
    if is_op(call, "nn.dense"):
        if len(data.shape) == 2:
            yield "dense_nopack.x86", [data, weight, None, dtype]
            yield "dense_pack.x86", [data, weight, None, dtype]
            if "arm_cpu" in target.keys:
                yield "dense_gemm.arm_cpu", [data, weight, None, dtype, False, True]
    elif is_op(call, "nn.batch_matmul"):
        card = card_of(call, products.batch_matmul)
        yield (
            "batch_matmul.x86",
            [data, weight, static_shape(call), dtype, bool(card.transpose_a), bool(card.transpose_b)],
        )
    else:
        yield from _of_convolution(call, target, data, weight, dtype)


def _of_plain_loops(call: Call, data: te.Tensor, weight: te.Tensor, dtype: str) -> Iterator[Candidate]:
    """Those for microcontrollers, which have no template that packs weights."""
    if is_op(call, "nn.dense") and len(data.shape) == 2 and dtype not in DTYPES:
        yield "dense.generic", [data, weight, None, dtype]
    if not is_op(call, "nn.conv2d"):
        return
    card = card_of(call, conv.conv2d)
    layouts = card.data_layout, card.kernel_layout, card.out_layout or card.data_layout
    kernel = [get_const_int(d) for d in weight.shape]
    args = [data, weight, *_windows(card, kernel[:2])]
    if layouts == ("NHWC", "HWIO", "NHWC") and card.groups == 1:
        yield "conv2d_nhwc.generic", [*args, dtype]
    elif (
        layouts[1] in ("HWOI", "HWIO") and layouts[0] == layouts[2] == "NHWC" and sorted(kernel[2:]) == [1, card.groups]
    ):
        yield "depthwise_conv2d_nhwc.generic", [*args, card.kernel_layout, dtype]


def _windows(card: conv.conv2d, kernel: list[int]) -> list[tuple[int, ...]]:
    """[strides, padding, dilation] of a convolution, complete."""
    strides, dilation = ((v[0], v[-1]) for v in (tuple(card.strides), tuple(card.dilation)))
    before, after = get_pad_tuple(card.padding, [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)])
    return [strides, (*before, *after), dilation]


def _of_convolution(call: Call, target: Target, data: te.Tensor, weight: te.Tensor, dtype: str) -> Iterator[Candidate]:
    card = card_of(call, conv.conv2d)
    if card.data_layout != "NCHW" or card.kernel_layout != "OIHW" or card.out_layout not in ("", "NCHW"):
        return
    (_, channels, _, _), (filters, within, *kernel) = ([get_const_int(d) for d in t.shape] for t in (data, weight))
    strides, padding, dilation = _windows(card, kernel)
    args = [data, weight, strides, padding, dilation]
    depthwise = card.groups == channels and within == 1 and channels > 1
    if depthwise and "arm_cpu" in target.keys:
        yield "depthwise_conv2d_nchw.arm_cpu", [*args, dtype]
    elif depthwise:
        if filters == channels:
            yield "depthwise_conv2d_NCHWc.x86", [*args, "NCHW", "NCHW", dtype]
    elif card.groups == 1 and "arm_cpu" in target.keys:
        yield "conv2d_nchw_spatial_pack.arm_cpu", [*args, dtype]
        if kernel == [3, 3] and strides == dilation == (1, 1):
            yield "conv2d_nchw_winograd.arm_cpu", [*args, dtype]
    elif card.groups == 1:
        yield "conv2d_NCHWc.x86", [*args, "NCHW", "NCHW", dtype]


def _of_packed_bytes(call: Call) -> Candidate:
    (data, weight), card = [static_shape(a) for a in call.args], card_of(call)
    assert data is not None and weight is not None

    def args(*plain: int) -> list[Any]:
        return [te.placeholder(data, "int8"), te.placeholder(plain, "int8")]

    if isinstance(card, dense_pairs):
        return "dense_dsp.arm_cpu", [*args(weight[0] * weight[2], data[1]), None, "int32"]
    assert isinstance(card, (conv2d_pairs, depthwise_conv2d_pairs))
    window = [tuple(card.strides), tuple(card.padding), (1, 1), "int32"]
    if isinstance(card, depthwise_conv2d_pairs):
        return "depthwise_conv2d_nhwc_dsp.arm_cpu", [*args(*weight[1:3], data[3], 1), *window]
    kernel = (weight[1], card.kernel_width or weight[3])
    return "conv2d_nhwc_dsp.arm_cpu", [*args(*kernel, weight[0] * weight[4], data[3]), *window]


def _panels(weight: np.ndarray, config: ConfigSpace) -> np.ndarray:
    """Weights (N, K) as (N / b, K, b)."""
    block = config["tile_x"].size[-1]
    return weight.reshape(-1, block, weight.shape[1]).transpose(0, 2, 1)


def _blocks_of_filters(weight: np.ndarray, config: ConfigSpace) -> np.ndarray:
    """Weights (O, C, KH, KW) as (O / b, C, KH, KW, b)."""
    block = config["tile_co"].size[-1]
    return weight.reshape(-1, block, *weight.shape[1:]).transpose(0, 2, 3, 4, 1)


def _transformed(weight: np.ndarray, config: ConfigSpace) -> np.ndarray:
    """Weights (O, C, 3, 3) as (6, 6, O / b, C, b), transformed."""
    block = config["tile_k"].size[-1]
    matrix = winograd_transform_matrices(4, weight.shape[2])[2]
    made: np.ndarray = np.einsum("okyx,ey,fx->efok", weight, matrix, matrix, optimize=True).astype(weight.dtype)
    return made.reshape(*made.shape[:2], -1, block, made.shape[3]).transpose(0, 1, 2, 4, 3)


PACKERS: dict[str, Callable[[np.ndarray, ConfigSpace], np.ndarray]] = {
    "dense_gemm.arm_cpu": _panels,
    "dense_pack.x86": _panels,
    "conv2d_nchw_spatial_pack.arm_cpu": _blocks_of_filters,
    "conv2d_nchw_winograd.arm_cpu": _transformed,
}
"""How constant weights are packed for a template."""

__all__ = ["candidates", "with_templates"]
