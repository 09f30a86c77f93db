"""Samples of operators on quantised numbers, and on floats with quantised weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontend.tflite.ops.samples import F, Quant, i32, rng, sample, scale_of, values

TYPES = ("int8", "uint8", "int16")
UNIT: dict[str, Quant] = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
SIGNED: dict[str, Quant] = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}


def elements() -> None:
    """Operators on single elements."""
    for t in TYPES:
        a, b, c = scale_of(t), scale_of(t, -1.0, 2.0), scale_of(t, -4.0, 5.0)
        pot: dict[str, Any] = {"pot_scale_int16": False}
        for op, kind, more in (("ADD", "AddOptions", pot), ("SUB", "SubOptions", pot), ("MUL", "MulOptions", {})):
            for act in (0, 1, 3):
                options = {**more, "fused_activation_function": act}
                sample(f"{t}-{op}-{act}", op, [(t, (4, 50), a), (t, (50,), b)], [(t, (), c)], options, kind)
        if t == "int16":
            powers: list[Quant] = [(2.0**-12, 0), (2.0**-14, 0), (2.0**-12, 0)]
            for op, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions")):
                sample(
                    f"{t}-{op}-powers",
                    op,
                    [(t, (4, 50), powers[0]), (t, (4, 50), powers[1])],
                    [(t, (), powers[2])],
                    {},
                    kind,
                )
        if t == "int8":
            sample(
                f"{t}-SQUARED_DIFFERENCE",
                "SQUARED_DIFFERENCE",
                [(t, (4, 50), a), (t, (4, 50), b)],
                [(t, (), scale_of(t, 0, 25))],
                {},
                "SquaredDifferenceOptions",
            )
        if t != "int16":
            sample(
                f"{t}-PRELU",
                "PRELU",
                [(t, (1, 4, 5, 9), a), (values(rng("p"), t, (1, 1, 9)), scale_of(t, -1, 1))],
                [(t, (), c)],
            )
            for op, kind in (
                ("EQUAL", "EqualOptions"),
                ("GREATER", "GreaterOptions"),
                ("LESS_EQUAL", "LessEqualOptions"),
            ):
                sample(f"{t}-{op}", op, [(t, (200,), a), (t, (200,), b)], [("bool",)], {}, kind)
            sample(
                f"{t}-DIV",
                "DIV",
                [(t, (90,), a), (np.arange(1, 91).astype(t), (0.04, 0))],
                [(t, (), c)],
                {},
                "DivOptions",
            )
        for op in ("MAXIMUM", "MINIMUM"):
            sample(f"{t}-{op}", op, [(t, (90,), a), (t, (90,), a)], [(t, (), a)], {}, "MaximumMinimumOptions")
        for op in ("RELU", "RELU6", "RELU_N1_TO_1")[: 2 if t == "int16" else 3]:
            sample(f"{t}-{op}", op, [(t, (300,), a)], [(t, (), scale_of(t, 0, 2.5))])
        sample(f"{t}-LEAKY_RELU", "LEAKY_RELU", [(t, (300,), a)], [(t, (), b)], {"alpha": 0.3}, "LeakyReluOptions")
        sample(f"{t}-LOGISTIC", "LOGISTIC", [(t, (900,), scale_of(t, -9, 9))], [(t, (), UNIT[t])])
        sample(f"{t}-TANH", "TANH", [(t, (900,), scale_of(t, -5, 5))], [(t, (), SIGNED[t])])
        sample(f"{t}-QUANTIZE", "QUANTIZE", [(F, (9, 20))], [(t, (), b)], {}, "QuantizeOptions")
        sample(f"{t}-DEQUANTIZE", "DEQUANTIZE", [(t, (9, 20), b)], [(F,)], {}, "DequantizeOptions")
        for u in TYPES:
            if (t, u) not in (("uint8", "int16"), ("int16", "uint8")):
                sample(
                    f"{t}-QUANTIZE-{u}",
                    "QUANTIZE",
                    [(t, (900,), a)],
                    [(u, (), scale_of(u, -2, 2))],
                    {},
                    "QuantizeOptions",
                )
    sample("int16-LOGISTIC-power", "LOGISTIC", [("int16", (900,), (2.0**-12, 0))], [("int16", (), UNIT["int16"])])
    sample("int16-TANH-power", "TANH", [("int16", (900,), (2.0**-12, 0))], [("int16", (), SIGNED["int16"])])
    for t in ("int8", "uint8"):
        sample(
            f"{t}-HARD_SWISH",
            "HARD_SWISH",
            [(t, (400,), scale_of(t, -5, 5))],
            [(t, (), scale_of(t, -0.4, 5))],
            {},
            "HardSwishOptions",
        )
        for flag in (False, True):
            sample(
                f"{t}-GELU-{flag}",
                "GELU",
                [(t, (400,), scale_of(t))],
                [(t, (), scale_of(t, -0.2, 3))],
                {"approximate": flag},
                "GeluOptions",
            )
    for t in ("int8", "int16"):
        s = scale_of(t)
        sample(f"{t}-EXP", "EXP", [(t, (400,), scale_of(t, -3, 1))], [(t, (), scale_of(t, 0, 2.8))], {}, "ExpOptions")
        sample(f"{t}-LOG", "LOG", [(t, (400,), (scale_of(t, 0, 5)))], [(t, (), scale_of(t, -3, 2))])
        sample(
            f"{t}-RSQRT",
            "RSQRT",
            [(np.arange(1, 128).astype(t), (0.02, 0)) if t == "int16" else (t, (400,), (0.02, -128))],
            [(t, (), (0.05, -128 if t == "int8" else 0))],
        )
        sample(f"{t}-ABS", "ABS", [(t, (400,), s)], [(t, (), scale_of(t, 0, 3))], {}, "AbsOptions")
    sample("int8-ELU", "ELU", [("int8", (400,), scale_of("int8"))], [("int8", (), scale_of("int8", -1, 3))])


def weights(t: str, shape: tuple[int, ...], axis: int, per_channel: bool) -> tuple[np.ndarray, Quant]:
    """Quantised weights."""
    r = rng(f"{t}{shape}")
    data = values(r, "uint8" if t == "uint8" else "int8", shape)
    if t == "uint8":
        return data, (0.01, 120)
    if not per_channel:
        return np.maximum(data, -127), (0.013, 0)
    return np.maximum(data, -127), (r.uniform(0.004, 0.02, shape[axis]), [0] * shape[axis], axis)


def bias(t: str, source: Quant, w: Quant, count: int) -> tuple[np.ndarray, Quant]:
    """A bias in units of the products."""
    scales = np.broadcast_to(np.float32(source[0]) * np.asarray(w[0], np.float32), count)
    data = np.round(rng("bias").uniform(-0.3, 0.3, count) / scales).astype(np.int64 if t == "int16" else np.int32)
    return data, (scales, [0] * count, 0)


def layers() -> None:
    """Convolutions, products and pooling."""
    for t in TYPES:
        source, out = scale_of(t, -1.2, 1.0), scale_of(t, -2.5, 2.0)
        for channels in (False, True) if t != "uint8" else (False,):
            for pad, act in ((0, 0), (1, 3)):
                label = f"{t}-{'each' if channels else 'one'}{pad}"
                conv = {"padding": pad, "stride_w": 2, "stride_h": 1, "fused_activation_function": act}
                w, q = weights(t, (5, 3, 2, 4), 0, channels)
                sample(
                    f"CONV_2D-{label}",
                    "CONV_2D",
                    [(t, (2, 7, 8, 4), source), (w, q), bias(t, source, q, 5)],
                    [(t, (), out)],
                    conv,
                    "Conv2DOptions",
                )
                w, q = weights(t, (1, 3, 3, 8), 3, channels)
                sample(
                    f"DEPTHWISE-{label}",
                    "DEPTHWISE_CONV_2D",
                    [(t, (1, 7, 8, 4), source), (w, q), bias(t, source, q, 8)],
                    [(t, (), out)],
                    {**conv, "stride_h": 2, "depth_multiplier": 2},
                    "DepthwiseConv2DOptions",
                )
                if act == 0:
                    w, q = weights(t, (5, 3, 3, 4), 0, channels)
                    shape = i32(1, 9, 9, 5)
                    tconv = {"padding": 1, "stride_w": 2, "stride_h": 2}
                    sample(
                        f"TRANSPOSE_CONV-{label}",
                        "TRANSPOSE_CONV",
                        [shape, (w, q), (t, (1, 4, 4, 4), source), bias(t, source, q, 5)],
                        [(t, (), out)],
                        tconv,
                        "TransposeConvOptions",
                    )
                w, q = weights(t, (7, 30), 0, channels)
                sample(
                    f"FULLY_CONNECTED-{label}",
                    "FULLY_CONNECTED",
                    [(t, (3, 30), source), (w, q), bias(t, source, q, 7)],
                    [(t, (), out)],
                    {"fused_activation_function": act},
                    "FullyConnectedOptions",
                )
        if t != "uint8":
            for ay in (False, True):
                options = {"adj_y": ay}
                sample(
                    f"{t}-BATCH_MATMUL-{ay}",
                    "BATCH_MATMUL",
                    [(t, (2, 3, 9), source), (t, (2, 4, 9) if ay else (2, 9, 4), scale_of(t))],
                    [(t, (), scale_of(t, -9, 9))],
                    options,
                    "BatchMatMulOptions",
                )
        for pad in (0, 1):
            pool = {
                "padding": pad,
                "stride_w": 2,
                "stride_h": 2,
                "filter_width": 3,
                "filter_height": 2,
                "fused_activation_function": 3 * pad,
            }
            for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
                sample(f"{t}-{op}-{pad}", op, [(t, (2, 5, 6, 3), source)], [(t, (), source)], pool, "Pool2DOptions")
        sample(
            f"{t}-SOFTMAX",
            "SOFTMAX",
            [(t, (9, 31), scale_of(t, -6, 5))],
            [(t, (), UNIT[t])],
            {"beta": 1.0},
            "SoftmaxOptions",
        )
        sample(
            f"{t}-SOFTMAX-beta",
            "SOFTMAX",
            [(t, (9, 4), scale_of(t, -16, 15))],
            [(t, (), UNIT[t])],
            {"beta": 0.6},
            "SoftmaxOptions",
        )
        for op in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
            same = op.startswith("REDUCE")
            for label, axes in (("image", (1, 2)), ("last", (3,)), ("rows", (0, 1)), ("none", ())):
                sample(
                    f"{t}-{op}-{label}",
                    op,
                    [(t, (2, 5, 7, 6), source), i32(*axes)],
                    [(t, (), source if same else scale_of(t, -12, 9) if op == "SUM" else out)],
                    {"keep_dims": label == "image"},
                    "ReducerOptions",
                )
    for t in ("int8", "uint8"):
        sample(
            f"{t}-L2_NORMALIZATION",
            "L2_NORMALIZATION",
            [(t, (2, 3, 3, 5), (0.03, 4))],
            [(t, (), SIGNED[t])],
            {},
            "L2NormOptions",
        )
        sample(
            f"{t}-LOG_SOFTMAX",
            "LOG_SOFTMAX",
            [(t, (9, 12), scale_of(t, -6, 5))],
            [(t, (), (16 / 256, 127 if t == "int8" else 255))],
            {},
            "LogSoftmaxOptions",
        )


def movers() -> None:
    """Operators that move elements."""
    for t in TYPES:
        q = scale_of(t)
        sample(f"{t}-PAD", "PAD", [(t, (2, 3), q), i32([1, 0], [0, 2])], [(t, (), q)], {}, "PadOptions")
        sample(
            f"{t}-CONCATENATION",
            "CONCATENATION",
            [(t, (2, 30), q), (t, (2, 20), q)],
            [(t, (), q)],
            {"axis": 1},
            "ConcatenationOptions",
        )
        sample(f"{t}-GATHER", "GATHER", [(t, (5, 3), q), i32(2, 0)], [(t, (), q)], {}, "GatherOptions")
        if t != "int16":
            sample(
                f"{t}-ARG_MAX", "ARG_MAX", [(t, (5, 9), q), i32(1)], [("int32",)], {"output_type": 2}, "ArgMaxOptions"
            )
    q, other = scale_of("uint8"), scale_of("uint8", -2, 5)
    sample(
        "uint8-CONCATENATION-scales",
        "CONCATENATION",
        [("uint8", (2, 30), q), ("uint8", (2, 20), other)],
        [("uint8", (), other)],
        {"axis": 1},
        "ConcatenationOptions",
    )
    sample(
        "int8-SPACE_TO_BATCH_ND",
        "SPACE_TO_BATCH_ND",
        [("int8", (1, 4, 5, 2), (0.1, 7)), i32(2, 2), i32([0, 0], [1, 0])],
        [("int8", (), (0.1, 7))],
        {},
        "SpaceToBatchNDOptions",
    )


def hybrids() -> None:
    """Floats with quantised weights."""
    for asymmetric in (False, True):
        for each in (False, True):
            w, q = weights("int8", (7, 30), 0, each)
            sample(
                f"hybrid-FULLY_CONNECTED-{asymmetric}{each}",
                "FULLY_CONNECTED",
                [(F, (3, 30)), (w, q), values(rng("hb"), F, (7,))],
                [(F,)],
                {"asymmetric_quantize_inputs": asymmetric},
                "FullyConnectedOptions",
            )
        w, q = weights("int8", (2, 9, 4), 0, False)
        sample(
            f"hybrid-BATCH_MATMUL-{asymmetric}",
            "BATCH_MATMUL",
            [(F, (2, 3, 9)), (w, q)],
            [(F,)],
            {"asymmetric_quantize_inputs": asymmetric},
            "BatchMatMulOptions",
        )
    for each in (False, True):
        conv = {"padding": 0, "stride_w": 2, "stride_h": 1, "fused_activation_function": 1}
        w, q = weights("int8", (5, 3, 2, 4), 0, each)
        sample(
            f"hybrid-CONV_2D-{each}",
            "CONV_2D",
            [(F, (2, 7, 8, 4)), (w, q), values(rng("hb"), F, (5,))],
            [(F,)],
            conv,
            "Conv2DOptions",
        )
    for each in (False, True):
        w, q = weights("int8", (5, 3, 3, 4), 0, each)
        turned = {"padding": 0, "stride_w": 2, "stride_h": 2}
        sample(
            f"hybrid-TRANSPOSE_CONV-{each}",
            "TRANSPOSE_CONV",
            [i32(2, 8, 8, 5), (w, q), (F, (2, 4, 4, 4)), values(rng("hb"), F, (5,))],
            [(F,)],
            turned,
            "TransposeConvOptions",
        )
    for t, moved in (("int8", 3), ("uint8", 128)):
        w = np.maximum(values(rng("hz"), "int8", (5, 3, 2, 4)), -127).view(t)
        bias_values, q = values(rng("hb"), F, (5,)), (0.013, moved)
        conv = {"padding": 0, "stride_w": 2, "stride_h": 1}
        sample(
            f"hybrid-CONV_2D-{t}-zero",
            "CONV_2D",
            [(F, (2, 7, 8, 4)), (w, q), bias_values],
            [(F,)],
            conv,
            "Conv2DOptions",
        )
        rows = w.reshape(5, 24)
        sample(
            f"hybrid-FULLY_CONNECTED-{t}-zero",
            "FULLY_CONNECTED",
            [(F, (3, 24)), (rows, q), bias_values],
            [(F,)],
            {},
            "FullyConnectedOptions",
        )
    for zeros in (1, [1, -2, 0, 3, 5]):
        w, q = weights("int8", (5, 3, 3, 4), 0, isinstance(zeros, list))
        sample(
            f"hybrid-TRANSPOSE_CONV-zero-{isinstance(zeros, list)}",
            "TRANSPOSE_CONV",
            [i32(2, 8, 8, 5), (w, (q[0], zeros)), (F, (2, 4, 4, 4)), values(rng("hb"), F, (5,))],
            [(F,)],
            {"padding": 0, "stride_w": 2, "stride_h": 2},
            "TransposeConvOptions",
        )
    for turn in (False, True):
        w, q = weights("int8", (2, 4, 9) if turn else (2, 9, 4), 1 if turn else 2, True)
        sample(
            f"hybrid-BATCH_MATMUL-columns-{turn}",
            "BATCH_MATMUL",
            [(F, (2, 3, 9)), (w, q)],
            [(F,)],
            {"adj_y": turn},
            "BatchMatMulOptions",
        )
    w, q = weights("int8", (1, 3, 3, 4), 3, True)
    sample(
        "hybrid-DEPTHWISE",
        "DEPTHWISE_CONV_2D",
        [(F, (2, 7, 8, 4)), (w, q), values(rng("hb"), F, (4,))],
        [(F,)],
        {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1},
        "DepthwiseConv2DOptions",
    )


def odd_scales() -> None:
    """Signed weights with a zero point, which kernels pass over; functions where there is no number, and beyond what 16 bits hold."""
    for t in ("int8", "int16"):
        source, out = scale_of(t, -1.2, 1.0), scale_of(t, -2.5, 2.0)
        w, q = weights(t, (1, 3, 3, 4), 3, False)
        sample(
            f"{t}-DEPTHWISE-zero",
            "DEPTHWISE_CONV_2D",
            [(t, (1, 7, 8, 4), source), (w, (q[0], 5)), bias(t, source, q, 4)],
            [(t, (), out)],
            {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1},
            "DepthwiseConv2DOptions",
        )
        w, q = weights(t, (5, 3, 3, 4), 0, False)
        sample(
            f"{t}-TRANSPOSE_CONV-zero",
            "TRANSPOSE_CONV",
            [i32(1, 8, 8, 5), (w, (q[0], 5)), (t, (1, 4, 4, 4), source), bias(t, source, q, 5)],
            [(t, (), out)],
            {"padding": 0, "stride_w": 2, "stride_h": 2},
            "TransposeConvOptions",
        )
    sample(
        "int8-GELU-infinite", "GELU", [("int8", (300,), (np.inf, 0))], [("int8", (), (0.0125, -112))], {}, "GeluOptions"
    )
    for name, step in (("LOG", 0.5), ("EXP", 0.5), ("GELU", 6.0)):
        kind = "GeluOptions" if name == "GELU" else ""
        sample(f"int8-{name}-wide", name, [("int8", (900,), (step, 4))], [("int8", (), (0.05, 3))], {}, kind)
        sample(
            f"int16-{name}-wide", name, [("int16", (9000,), (step / 64, 0))], [("int16", (), (0.05 / 256, 0))], {}, kind
        )


def many() -> None:
    """Enough numbers to meet every way of rounding."""
    for t in TYPES:
        a, b, c = scale_of(t, -2.9, 3.1), scale_of(t, -1.1, 2.3), scale_of(t, -4.7, 5.2)
        x, y = (t, (150, 64), a), (t, (150, 64), b)
        pot: dict[str, Any] = {"pot_scale_int16": False}
        sample(f"{t}-many-ADD", "ADD", [x, y], [(t, (), c)], pot, "AddOptions")
        sample(f"{t}-many-SUB", "SUB", [x, y], [(t, (), c)], pot, "SubOptions")
        sample(f"{t}-many-MUL", "MUL", [x, y], [(t, (), c)], {}, "MulOptions")
        sample(f"{t}-many-LEAKY_RELU", "LEAKY_RELU", [x], [(t, (), b)], {"alpha": 0.37}, "LeakyReluOptions")
        sample(f"{t}-many-RELU", "RELU", [x], [(t, (), b)])
        sample(f"{t}-many-QUANTIZE", "QUANTIZE", [x], [(t, (), b)], {}, "QuantizeOptions")
        sample(
            f"{t}-many-MEAN",
            "MEAN",
            [(t, (1, 7, 7, 900), a), i32(1, 2)],
            [(t, (), b)],
            {"keep_dims": False},
            "ReducerOptions",
        )
        for channels in (False, True) if t != "uint8" else (False,):
            out = scale_of(t, -5.5, 5.0)
            w, q = weights(t, (8, 30), 0, channels)
            sample(
                f"{t}-many-FULLY_CONNECTED-{channels}",
                "FULLY_CONNECTED",
                [(t, (1500, 30), a), (w, q), bias(t, a, q, 8)],
                [(t, (), out)],
                {},
                "FullyConnectedOptions",
            )
            conv = {"stride_w": 1, "stride_h": 1}
            w, q = weights(t, (8, 1, 1, 30), 0, channels)
            sample(
                f"{t}-many-CONV_2D-{channels}",
                "CONV_2D",
                [(t, (1, 50, 30, 30), a), (w, q), bias(t, a, q, 8)],
                [(t, (), out)],
                conv,
                "Conv2DOptions",
            )
            w, q = weights(t, (1, 3, 3, 8), 3, channels)
            depthwise = {**conv, "depth_multiplier": 1}
            sample(
                f"{t}-many-DEPTHWISE-{channels}",
                "DEPTHWISE_CONV_2D",
                [(t, (1, 50, 30, 8), a), (w, q), bias(t, a, q, 8)],
                [(t, (), out)],
                depthwise,
                "DepthwiseConv2DOptions",
            )
            w, q = weights(t, (8, 2, 2, 6), 0, channels)
            turned = {"padding": 1, "stride_w": 2, "stride_h": 2}
            sample(
                f"{t}-many-TRANSPOSE_CONV-{channels}",
                "TRANSPOSE_CONV",
                [i32(1, 50, 30, 8), (w, q), (t, (1, 25, 15, 6), a), bias(t, a, q, 8)],
                [(t, (), out)],
                turned,
                "TransposeConvOptions",
            )
        if t != "uint8":
            product = [(t, (1500, 20), a), (t, (20, 8), b)]
            sample(
                f"{t}-many-BATCH_MATMUL",
                "BATCH_MATMUL",
                product,
                [(t, (), scale_of(t, -20, 20))],
                {},
                "BatchMatMulOptions",
            )
    x, y = ("int8", (150, 64), scale_of("int8", -2.9, 3.1)), ("int8", (150, 64), scale_of("int8", -1.1, 2.3))
    sample(
        "int8-many-SQUARED_DIFFERENCE",
        "SQUARED_DIFFERENCE",
        [x, y],
        [("int8", (), scale_of("int8", 0, 18))],
        {},
        "SquaredDifferenceOptions",
    )
    sample(
        "int8-many-PRELU",
        "PRELU",
        [("int8", (1, 10, 100, 9), x[2]), (values(rng("p"), "int8", (1, 1, 9)), y[2])],
        [("int8", (), x[2])],
    )
    sample("int8-many-LESS", "LESS", [x, y], [("bool",)], {}, "LessOptions")
    sample("int8-many-ABS", "ABS", [x], [("int8", (), scale_of("int8", 0, 3.1))], {}, "AbsOptions")


elements()
many()
layers()
movers()
hybrids()
odd_scales()
