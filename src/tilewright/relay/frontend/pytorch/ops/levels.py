"""Converters of quantised tensors of PyTorch's eager and FX modes: levels (integers) with their scale and zero point.

An operator on them becomes its float form between dequantize and quantize, as PT2E writes it.
`relay.transform.FakeQuantizationToInteger` makes the integer form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name, tensor_array
from tilewright.relay.frontend.pytorch.ops.layers import convolve, convolve_transposed
from tilewright.relay.frontend.pytorch.ops.linalg import linear
from tilewright.relay.frontend.pytorch.ops.quantized import RANGES
from tilewright.relay.frontend.pytorch.value import Argument, Attribute, Result, TorchCall, aten, find_converter
from tilewright.support.errors import OpNotImplemented

if TYPE_CHECKING:
    import torch

MOVES = {
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "t", "permute", "movedim", "expand",
    "slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "repeat", "flip", "roll", "clone", "contiguous", "alias",
    "detach", "index_select", "index", "gather", "view_as", "expand_as", "max_pool1d", "max_pool2d", "channel_shuffle", "pixel_shuffle",
    "size", "sym_size", "numel", "dim", "pixel_unshuffle", "swapaxes", "broadcast_to", "tile", "unfold", "dropout",
}  # fmt: skip
"""Operators that only move levels."""
OWN_LEVELS = {"sigmoid": (1 / 256, 0), "hardsigmoid": (1 / 256, 0), "tanh": (2 / 256, 128)}
"""Operators with a fixed scale and zero point of the result (for unsigned bytes; for signed ones the zero point is 128 less)."""


class Quantized:
    """A quantised tensor: its levels, scale and zero point. `axis`: the axis of several scales; None for one scale."""

    __slots__ = ("axis", "levels", "scale", "zero")

    def __init__(self, levels: Value, scale: Any, zero: Any, axis: int | None = None) -> None:
        self.levels, self.axis = levels, axis
        self.scale, self.zero = np.asarray(scale, np.float32), np.asarray(zero, np.int32)

    @property
    def shape(self) -> list[Dim]:
        """Extents, like those of a value."""
        return self.levels.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.levels.ndim

    @property
    def dtype(self) -> str:
        """The type of the levels."""
        return self.levels.dtype


def numbers(c: TorchCall, x: Any) -> Any:
    """The real values of a quantised tensor, as float32; other values unchanged."""
    if isinstance(x, (list, tuple)):
        return [numbers(c, v) for v in x]
    if not isinstance(x, Quantized):
        return x
    axis = -1 if x.axis is None else x.axis
    return c.call("qnn.dequantize", x.levels, Value(array=x.scale), Value(array=x.zero), axis=axis)


def levels_of(c: TorchCall, x: Value, scale: Any, zero: Any, dtype: str, axis: int | None = None) -> Quantized:
    """Numbers quantised to levels."""
    made = Quantized(x, scale, zero, axis)
    made.levels = c.call(
        "qnn.quantize", x, Value(array=made.scale), Value(array=made.zero), axis=-1 if axis is None else axis, out_dtype=dtype
    )  # fmt: skip
    return made


def plain_type(dtype: DType) -> str:
    """The integer type of the levels of torch.quint8 and similar types."""
    return dtype_name(dtype).replace("qui", "ui").replace("qi", "i")


def convert_quantized(
    c: TorchCall, name: str, overload: str, positional: Sequence[Argument], named: dict[str, Argument]
) -> Any:
    """A call of a float operator with a quantised argument. Raises OpNotImplemented."""
    short = name.removeprefix("aten::").removesuffix("_")
    if positional and isinstance(positional[0], Quantized):
        answer = told(c, name, positional[0])
        if answer is not None:
            return answer
    converter = find_converter(name, overload)
    if converter is None:
        raise OpNotImplemented("it is not supported on quantised tensors: dequantize before it")
    first = next(v for v in _flat(positional) if isinstance(v, Quantized))
    if first.axis is not None:
        raise OpNotImplemented("it is not supported on tensors with a scale for each channel: dequantize before it")

    def again(r: Any) -> Any:
        if isinstance(r, (list, tuple)):
            return [again(v) for v in r]
        if not isinstance(r, Value) or short not in MOVES and r.dtype != "float32":
            return r
        return Quantized(r, first.scale, first.zero) if short in MOVES else _requantized(c, r, short, first)

    if short in MOVES:
        return again(converter(c, *[v.levels if isinstance(v, Quantized) else v for v in positional], **named))
    return again(converter(c, *numbers(c, positional), **named))


def _requantized(c: TorchCall, x: Value, short: str, like: Quantized) -> Quantized:
    if short not in OWN_LEVELS:
        return levels_of(c, x, like.scale, like.zero, like.dtype)
    scale, zero = OWN_LEVELS[short]
    return levels_of(c, x, scale, zero - 128 if like.dtype == "int8" else zero, like.dtype)


def _flat(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, (list, tuple)) else [x]


@aten("quantize_per_tensor")
def _quantize(c: TorchCall, x: Value, scale: Any, zero: Any, dtype: DType) -> Quantized:
    return levels_of(c, x, c.known(scale, "scale"), c.known(zero, "zero point"), plain_type(dtype))


@aten("quantize_per_channel")
def _quantize_channels(c: TorchCall, x: Value, scales: Any, zeros: Any, axis: int, dtype: DType) -> Quantized:
    known = c.known(scales, "scales"), c.known(zeros, "zero points")
    return levels_of(c, x, *known, plain_type(dtype), c.axis(axis, x.ndim))


@aten("dequantize")
def _dequantize(c: TorchCall, x: Any) -> Any:
    return x


@aten("int_repr")
def _int_repr(c: TorchCall, x: Any) -> Any:
    return x


@aten("q_scale", "q_zero_point")
def _parameter(c: TorchCall, x: Any) -> Result:
    raise OpNotImplemented("its input is not quantised")


def told(c: TorchCall, name: str, x: Quantized) -> Result:
    """A property of a quantised tensor; None for other operators."""
    answers: dict[str, Callable[[], Any]] = {
        "dequantize": lambda: numbers(c, x), "int_repr": lambda: x.levels, "q_scale": lambda: float(x.scale),
        "q_zero_point": lambda: int(x.zero),
    }  # fmt: skip
    short = name.removeprefix("aten::")
    return answers[short]() if short in answers else None


# Layers with weights packed in an object


def _weight(c: TorchCall, packed: Attribute, unpack: str) -> tuple[Value, Value | None]:
    """(dequantised weight, bias) of a packed layer."""
    return packed_weight(c, packed.module, packed.path, unpack)


def packed_weight(c: TorchCall, packed: torch.ScriptObject, path: str, unpack: str) -> tuple[Value, Value | None]:
    """(dequantised weight, bias) of an object of packed weights."""
    import torch

    weight, bias = getattr(torch.ops.quantized, unpack)(packed)
    while path.endswith("_packed_params"):
        path = path.removesuffix("_packed_params").removesuffix(".")
    held = c.home.real_weight(f"{path}.weight".removeprefix("."), tensor_array(weight))
    # A constant, which FakeQuantizationToInteger converts back to levels.
    plain = None if bias is None else Value(array=tensor_array(bias), name=f"{path}.bias".removeprefix("."))
    if not weight.is_quantized:
        return c.cast(held, "float32"), plain
    if weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return numbers(c, Quantized(held, weight.q_scale(), weight.q_zero_point())), plain
    scales, zeros = (tensor_array(v) for v in (weight.q_per_channel_scales(), weight.q_per_channel_zero_points()))
    return numbers(c, Quantized(held, scales, zeros, weight.q_per_channel_axis())), plain


def _finished(c: TorchCall, x: Value, scale: float, zero: int, dtype: str) -> Quantized:
    """A result quantised to levels, after a ReLU if the operator's name has one."""
    return levels_of(c, c.call("nn.relu", x) if "relu" in c.target else x, scale, zero, dtype)


def _layer(rank: int, transposed: bool) -> Callable[..., Any]:
    kind = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    # A convolution along one axis is packed like one of images with one row.
    packed_as = kind.replace("1d", "2d")

    def convert(c: TorchCall, x: Quantized, packed: Attribute, scale: float, zero: int) -> Quantized:
        import torch

        weight, bias = _weight(c, packed, f"{kind}_unpack")

        def said(what: str) -> list[int]:
            found = getattr(torch.ops.quantized, f"{packed_as}_{what}")(packed.module)
            return [int(v) for v in found][-rank:]

        groups = int(getattr(torch.ops.quantized, f"{packed_as}_groups")(packed.module))
        if transposed:
            more = said("stride"), said("padding"), said("output_padding"), groups, said("dilation")
            out = convolve_transposed(c, numbers(c, x), weight, bias, *more)
        else:
            pads = said("padding")
            out = convolve(c, numbers(c, x), weight, bias, said("stride"), [*pads, *pads], said("dilation"), groups)
        return _finished(c, out, scale, zero, x.dtype)

    return convert


for _rank in (1, 2, 3):
    aten(f"quantized::conv{_rank}d.new", f"quantized::conv{_rank}d_relu.new")(_layer(_rank, False))
    aten(f"quantized::conv_transpose{_rank}d")(_layer(_rank, True))


@aten("quantized::linear", "quantized::linear_relu")
def _linear(c: TorchCall, x: Quantized, packed: Attribute, scale: float, zero: int) -> Quantized:
    return _finished(c, linear(c, numbers(c, x), *_weight(c, packed, "linear_unpack")), scale, zero, x.dtype)


@aten("quantized::linear_dynamic", "quantized::linear_relu_dynamic")
def _linear_dynamic(c: TorchCall, x: Value, packed: Attribute, reduced: bool = False) -> Value:
    out = linear(c, rounded_to_bytes(c, x, reduced), *_weight(c, packed, "linear_unpack"))
    return c.call("nn.relu", out) if "relu" in c.target else out


@aten("quantized::linear_dynamic_fp16", "quantized::linear_relu_dynamic_fp16")
def _linear_half(c: TorchCall, x: Value, packed: Attribute) -> Value:
    out = linear(c, x, *_weight(c, packed, "linear_unpack_fp16"))
    return c.call("nn.relu", out) if "relu" in c.target else out


def rounded_to_bytes(c: TorchCall, x: Value, reduced: bool) -> Value:
    """Numbers rounded to 256 levels over the tensor's own range; `reduced`: to 128 levels."""
    top = 127.0 if reduced else 255.0
    low = c.call("minimum", c.call("min", x, axis=None), 0)
    high = c.call("maximum", c.call("max", x, axis=None), 0)
    scale = c.call("divide", c.call("subtract", high, low), top)
    scale = c.call("where", c.call("equal", scale, 0), c.number(0.1, x.dtype), scale)
    zero = c.call("clip", c.call("round", c.call("negative", c.call("divide", low, scale))), a_min=0.0, a_max=top)
    levels = c.call("clip", c.call("add", c.call("round", c.call("divide", x, scale)), zero), a_min=0.0, a_max=top)
    return c.call("multiply", c.call("subtract", levels, zero), scale)


@aten("quantized::embedding_byte")
def _embedding(c: TorchCall, packed: Attribute, places: Value, pruned: bool = False) -> Value:
    import torch

    table = torch.ops.quantized.embedding_bag_unpack(packed.module).dequantize()
    return c.call("take", Value(array=tensor_array(table)), places, axis=0, mode="clip")


# Operators with arguments for their result's scale


@aten(*[f"quantized::{n}{r}" for n in ("add", "mul") for r in ("", "_relu")], "quantized::matmul")
def _pair(c: TorchCall, a: Quantized, b: Quantized, scale: float, zero: int) -> Quantized:
    short = c.target.split("::")[1].split(".")[0].removesuffix("_relu")
    converter = find_converter(short)
    assert converter is not None
    return _finished(c, converter(c, numbers(c, a), numbers(c, b)), scale, zero, a.dtype)


@aten("quantized::mul.Scalar", "quantized::mul_scalar", "quantized::mul_scalar_relu")
def _times(c: TorchCall, x: Quantized, number: float) -> Quantized:
    low, high = RANGES[x.dtype]
    if number == 0:
        made = Quantized(c.full(x.shape, 0, x.dtype), 1.0, 0)
    elif number > 0:
        made = Quantized(x.levels, x.scale * number, x.zero)
    else:
        turned = c.call("subtract", low + high, c.cast(x.levels, "int32"))
        made = Quantized(c.cast(turned, x.dtype), x.scale * -number, low + high - x.zero)
    return _cut_below(c, made) if "relu" in c.target else made


def _cut_below(c: TorchCall, x: Quantized) -> Quantized:
    """The levels after a ReLU, at least the zero point."""
    return Quantized(c.call("maximum", x.levels, int(x.zero)), x.scale, x.zero)


@aten("quantized::add.Scalar", "quantized::add_scalar", "quantized::add_scalar_relu")
def _plus(c: TorchCall, x: Quantized, number: float) -> Quantized:
    low, high = RANGES[x.dtype]
    zero = int(x.zero) - round(number / float(x.scale))
    if low <= zero <= high:
        made = Quantized(x.levels, x.scale, zero)
    else:
        # The zero point is clamped to the nearer bound, and the scale grows until the range fits.
        end = low if zero < low else high
        wider = float(x.scale) * (high - zero if zero < low else zero - low) / (high - low)
        made = levels_of(c, c.call("add", numbers(c, x), float(number)), wider, end, x.dtype)
    return _cut_below(c, made) if "relu" in c.target else made


@aten("quantized::cat", "quantized::cat_relu")
def _cat(
    c: TorchCall, parts: Sequence[Quantized], dim: int, scale: float | None = None, zero: int | None = None
) -> Quantized:
    first = parts[0]
    joined = c.call("concatenate", numbers(c, list(parts)), axis=c.axis(dim, first.ndim))
    if scale is None or zero is None:
        scale, zero = float(first.scale), int(first.zero)
    return _finished(c, joined, scale, zero, first.dtype)


@aten("quantized::relu6")
def _relu6(c: TorchCall, x: Quantized, inplace: bool = False) -> Quantized:
    return levels_of(c, c.call("clip", numbers(c, x), a_min=0.0, a_max=6.0), x.scale, x.zero, x.dtype)


def _told(short: str, count: int) -> Callable[..., Any]:
    """An operator with `count` arguments before its result's scale and zero point."""

    def convert(c: TorchCall, *args: Any) -> Quantized:
        converter = find_converter(short)
        assert converter is not None
        given, (scale, zero) = list(args[:count]), args[count : count + 2]
        return levels_of(c, converter(c, *numbers(c, given), *args[count + 2 :]), scale, zero, args[0].dtype)

    return convert


for _name, _count in {"hardswish": 1, "sigmoid": 1, "softmax": 2, "elu": 1, "celu": 1, "prelu": 2}.items():
    aten(f"quantized::{_name}")(_told(_name, _count))


@aten("quantized::leaky_relu")
def _leaky(c: TorchCall, x: Quantized, slope: float, inplace: bool, scale: float, zero: int) -> Quantized:
    return levels_of(c, c.call("nn.leaky_relu", numbers(c, x), alpha=float(slope)), scale, zero, x.dtype)


@aten("quantized::dropout")
def _dropout(c: TorchCall, x: Quantized, scale: float, zero: int, *rest: object) -> Quantized:
    return x


@aten(*[f"quantized::batch_norm{n}{r}" for n in ("", "1d", "2d", "3d") for r in ("", "_relu")])
def _batch_norm(
    c: TorchCall,
    x: Quantized,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    eps: float,
    scale: float,
    zero: int,
) -> Quantized:
    converter = find_converter("batch_norm")
    assert converter is not None
    out = converter(c, numbers(c, x), weight, bias, mean, var, False, 0.1, eps, False)
    return _finished(c, out, scale, zero, x.dtype)


@aten("quantized::layer_norm")
def _layer_norm(
    c: TorchCall,
    x: Quantized,
    shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
    scale: float,
    zero: int,
) -> Quantized:
    converter = find_converter("layer_norm")
    assert converter is not None
    return levels_of(c, converter(c, numbers(c, x), shape, weight, bias, eps), scale, zero, x.dtype)


@aten("quantized::group_norm", "quantized::instance_norm")
def _group_norm(c: TorchCall, x: Quantized, *args: Any) -> Quantized:
    if "instance" in c.target:
        weight, bias, eps, scale, zero = args
        groups = x.levels.known_extent(1)
    else:
        groups, weight, bias, eps, scale, zero = args
    converter = find_converter("group_norm")
    assert converter is not None
    return levels_of(c, converter(c, numbers(c, x), groups, weight, bias, eps), scale, zero, x.dtype)
