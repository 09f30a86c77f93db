"""Elementwise operators."""

from __future__ import annotations

import math

import torch

from tests.frontend.torch.ops import Sample, b, f, i

POSITIVE, UNIT = {"low": 0.1, "high": 4.0}, {"low": -0.95, "high": 0.95}
edge = torch.tensor([-math.inf, -2.5, -0.0, 0.0, 0.5, 1.5, 2.5, math.inf, math.nan])

neighbours = torch.tensor([1.0, -1.0, 0.0, 0.0, 2.0, math.nan, math.inf, 3e38])
towards = torch.tensor([2.0, 0.0, 1.0, -1.0, 2.0, 1.0, 0.0, math.inf])
positive = f(3, 5, low=0.1, high=12.0)

POLYNOMIALS = [
    *[f"{kind}chebyshev_polynomial_{k}" for kind in ("", "shifted_") for k in "tuvw"],
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
]  # fmt: skip

SAMPLES: list[Sample] = [
    *[(n, (x,)) for n in ("lgamma", "digamma", "i0", "special_i0e", "special_i1", "special_i1e", "special_erfcx", "special_airy_ai",
        "special_bessel_j0", "special_bessel_j1", "special_modified_bessel_i0", "special_modified_bessel_i1",
        "special_spherical_bessel_j0", "frexp.Tensor") for x in (positive, f(3, 5, low=-2.9, high=-0.1))],
    *[(n, (positive,)) for n in ("special_bessel_y0", "special_bessel_y1")],
    *[(f"special_{n}_bessel_{k}", (x,)) for n in ("modified", "scaled_modified") for k in ("k0", "k1")
        for x in (positive, torch.tensor([0.0, 1e-4, 1e12, 1e18, math.inf]))],
    *[(n, (f(3, 5, low=0.01, high=0.99),)) for n in ("erfinv", "special_ndtri")],
    ("lgamma", (i(4, low=1, high=9),)),
    ("special_airy_ai", (torch.tensor([-12.0, -6.5, -5.9, 5.9, 6.1, 9.0, 0.0]),)),
    ("special_spherical_bessel_j0", (torch.tensor([0.0, 1e-7, math.inf, -math.inf, 3.0]),)),
    *[(n, (positive, f(5, low=0.2, high=9.0))) for n in ("igamma", "igammac")],
    *[(f"special_{n}", (f(3, 5, low=-1.2, high=1.2), i(5, low=-1, high=9))) for n in POLYNOMIALS],
    *[(f"special_{n}.n_scalar", (f(3, 5, low=-1.2, high=1.2), k)) for n in POLYNOMIALS for k in (-2, 0, 1, 2, 5)],
    *[("nextafter", (neighbours.to(t), towards.to(t))) for t in (torch.float32, torch.float64, torch.bfloat16)],
    ("logaddexp", (torch.tensor([math.inf, -math.inf, -math.inf, 1.0]), torch.tensor([math.inf, -math.inf, 2.0, 1.0]))),
    *[(n, (i(3, 5, low=-9, high=10, dtype=t), i(5, low=-9, high=10, dtype=t))) for n in ("gcd", "lcm") for t in (torch.int64, torch.int32)],
    ("special_zeta", (f(3, 5, low=1.2, high=5.0), f(5, low=0.2, high=9.0))),
    *[("polygamma", (n, f(3, 5, low=0.3, high=5.0))) for n in (0, 1, 3)],
    *[("polygamma", (n, torch.tensor([-8.5, -1.4, -0.25, 30.0]))) for n in (0, 1, 2, 3)],
    ("frexp.Tensor", (torch.tensor([0.0, 1.0, -2.0, 0.5, 3.999999, 1e-40, math.inf, -8.0]),)),
    *[
        (name, (f(3, 4),))
        for name in (
            "abs", "ceil", "floor", "trunc", "neg", "sign", "relu", "cos", "cosh", "erf", "exp", "sigmoid", "sin", "sinh", "tan", "tanh",
            "atan", "asinh", "expm1", "exp2", "erfc", "square", "frac", "round", "gelu", "silu", "relu6", "hardtanh", "leaky_relu", "elu",
            "selu", "celu", "softplus", "log_sigmoid", "mish", "hardsigmoid", "hardswish", "logical_not", "positive",
            "reciprocal", "clone", "detach", "contiguous", "alias", "lift_fresh_copy", "softshrink", "hardshrink", "signbit",
        )
    ],
    *[(name, (f(3, 4, **POSITIVE),)) for name in ("log", "log2", "log10", "rsqrt", "sqrt", "log1p")],
    *[(name, (f(3, 4, **UNIT),)) for name in ("acos", "asin", "atanh")],
    ("acosh", (f(3, 4, low=1.1, high=3.0),)),
    *[(name, (i(3, 4),)) for name in ("abs", "neg", "sign", "ceil", "floor", "trunc", "round", "exp", "sin", "sigmoid", "relu", "tanh")],
    *[(name, (i(6, low=0, dtype=torch.uint8),)) for name in ("abs", "bitwise_not", "sqrt")],
    *[(name, (b(5),)) for name in ("logical_not", "bitwise_not", "exp")],
    *[(name, (edge,)) for name in ("isnan", "isinf", "isfinite", "sign", "floor", "round", "trunc", "isposinf", "isneginf", "signbit")],
    *[(name, (i(4),)) for name in ("isnan", "isinf", "isfinite")],
    ("nan_to_num", (edge,)),
    ("nan_to_num", (edge, 1.0, 2.0, -3.0)),
    ("log1p", (torch.tensor([0.0, 1e-9, 1e-5, -0.5, 3.0]),)),
    ("expm1", (torch.tensor([0.0, 1e-9, 1e-5, -0.4, 3.0]),)),
    ("round.decimals", (f(3, 4),), {"decimals": 2}),
    *[(f"{name}.Tensor", (f(3, 4), f(4, seed=3)))
        for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge")],
    *[(f"{name}.Tensor", (i(3, 4), i(4, seed=3)))
        for name in ("add", "sub", "mul", "eq", "lt", "ge", "bitwise_and", "bitwise_or")],
    *[(f"{name}.Tensor", (b(3, 4), b(4, seed=3)))
        for name in ("add", "mul", "eq", "lt", "ge", "bitwise_and", "bitwise_xor")],
    *[(f"{name}.Tensor", (i(3, 4), f(4, seed=3))) for name in ("add", "sub", "mul", "div", "lt")],
    *[(f"{name}.Tensor", (i(3, 4, dtype=torch.int32), i(4, dtype=torch.int64))) for name in ("add", "mul", "eq")],
    *[(f"{name}.Tensor", (f(3, 4), torch.tensor(2.5, dtype=torch.float64))) for name in ("add", "mul", "div")],
    *[(f"{name}.Tensor", (i(3, 4), 2.5)) for name in ("add", "mul", "div")],
    *[(f"{name}.Tensor", (b(3, 4), 2)) for name in ("add", "mul")],
    *[(f"{name}.Scalar", (f(3, 4), 2))
        for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "rsub")],
    *[(f"{name}.Scalar", (i(3, 4), 2))
        for name in ("add", "sub", "mul", "div", "eq", "remainder", "fmod", "bitwise_and", "bitwise_or")],
    *[(f"{name}.Scalar", (i(3, 4), 2.5)) for name in ("eq", "lt", "mul")],
    ("bitwise_xor.Scalar", (i(3, 4), 3)),
    ("add.Tensor", (f(3, 4), f(3, 4, seed=1)), {"alpha": 2}),
    ("sub.Tensor", (f(3, 4), f(3, 4, seed=1)), {"alpha": 0.5}),
    ("rsub.Tensor", (f(3, 4), f(3, 4, seed=1)), {"alpha": 2}),
    *[("div.Tensor_mode", (f(3, 4), f(4, **POSITIVE)), {"rounding_mode": m}) for m in ("floor", "trunc", None)],
    *[("div.Tensor_mode", (i(3, 4), torch.tensor([2, -2, 3, -3])), {"rounding_mode": m})
        for m in ("floor", "trunc", None)],
    *[("div.Scalar_mode", (f(3, 4), 0.7), {"rounding_mode": m}) for m in ("floor", "trunc")],
    ("floor_divide", (i(3, 4), torch.tensor(3))),
    ("floor_divide", (f(3, 4), torch.tensor(0.7))),
    *[(f"{n}.Tensor", (f(3, 4), torch.tensor([0.7, -0.7, 1.1, -1.3]))) for n in ("remainder", "fmod")],
    *[(f"{n}.Tensor", (i(3, 4), torch.tensor([2, -2, 3, -3]))) for n in ("remainder", "fmod")],
    *[(f"{n}.Scalar", (f(3, 4), 0.7)) for n in ("remainder", "fmod")],
    *[(n, (f(3, 4), f(4, seed=2)))
        for n in ("maximum", "minimum", "atan2", "fmax", "fmin", "hypot", "logaddexp", "copysign.Tensor")],
    *[(n, (i(3, 4), i(4, seed=2))) for n in ("maximum", "minimum")],
    ("max.other", (f(3), f(3, seed=5))),
    ("min.other", (f(3), f(3, seed=5))),
    ("atan2", (torch.tensor([0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 2.0]), torch.tensor([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, -3.0]))),
    *[("pow.Tensor_Scalar", (f(3, 4, **POSITIVE), e)) for e in (2, 3, 0.5, -0.5, -1, 1.7, 0, 1, 4)],
    *[("pow.Tensor_Scalar", (i(3, 4), e)) for e in (2, 3, 5, 0)],
    ("pow.Tensor_Scalar", (i(3, 4, low=1), 0.5)),
    ("pow.Tensor_Tensor", (f(3, 4, **POSITIVE), f(4))),
    ("pow.Tensor_Tensor", (i(3, 4), i(4, low=0, high=4))),
    ("pow.Scalar", (2, f(3, 4))),
    ("pow.Scalar", (2.5, i(3, 4))),
    ("clamp", (f(3, 4), -0.5, 1.0)),
    ("clamp", (f(3, 4), 0.0, None)),
    ("clamp", (i(3, 4), -2, 3)),
    ("clamp", (i(3, 4), 0.5)),
    ("clamp.Tensor", (f(3, 4), f(4, seed=1), None)),
    ("clamp.Tensor", (f(3, 4), f(4, low=-2, high=0), f(4, low=0, high=2))),
    ("clamp_min", (f(3, 4), 0.3)),
    ("clamp_max", (i(3, 4), 1)),
    *[(n, (f(3, 4), b(3, 4))) for n in ("logical_and", "logical_or", "logical_xor")],
    *[(n, (i(3, 4), i(4, seed=1))) for n in ("logical_and", "logical_or", "logical_xor")],
    *[(n, (i(3, 4, low=0), i(4, low=0, high=4))) for n in ("bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor")],
    ("where.self", (b(3, 4), f(3, 4), f(4))),
    ("where.self", (b(3, 4), f(4), i(3, 1))),
    ("where.ScalarSelf", (b(3, 4), 2.5, f(3, 4))),
    ("where.ScalarOther", (b(3, 4), f(3, 4), 1)),
    ("masked_fill.Scalar", (f(3, 4), b(4), -math.inf)),
    ("masked_fill.Tensor", (f(3, 4), b(3, 4), torch.tensor(2.0))),
    ("addcmul", (f(3, 4), f(4), f(3, 4, seed=2)), {"value": 0.5}),
    ("addcdiv", (f(3, 4), f(4), f(3, 4, **POSITIVE)), {"value": 0.5}),
    ("lerp.Scalar", (f(3, 4), f(3, 4, seed=1), 0.3)),
    ("lerp.Tensor", (f(3, 4), f(3, 4, seed=1), f(3, 4, seed=2))),
    ("isclose", (f(5), f(5) + 1e-7)),
    ("logit", (f(3, 4, low=0.1, high=0.9), None)),
    ("logit", (f(3, 4), 0.1)),
    ("gelu", (f(3, 4),), {"approximate": "tanh"}),
    ("elu", (f(3, 4), 0.5, 1.5, 2.0)),
    ("hardtanh", (f(3, 4), -0.5, 0.7)),
    ("leaky_relu", (f(3, 4), 0.2)),
    ("celu", (f(3, 4), 0.7)),
    ("softplus", (f(3, 4, low=-30, high=30), 2.0, 10.0)),
    ("softshrink", (f(3, 4), 0.3)),
    ("hardshrink", (f(3, 4), 0.3)),
    ("threshold", (f(3, 4), 0.1, 20.0)),
    ("prelu", (f(2, 3, 4), f(3))),
    ("prelu", (f(2, 3, 4), f(1))),
    ("_prelu_kernel", (f(2, 3), f(1, 3))),
    ("glu", (f(3, 4), -1)),
    ("rrelu", (f(3, 4),)),
    ("dropout", (f(3, 4), 0.5, False)),
    ("native_dropout", (f(3, 4), 0.5, False)),
    *[(n, (f(3, 4), 1, False)) for n in ("_softmax", "_log_softmax")],
    *[(n, (f(3, 4), 0)) for n in ("softmax.int", "log_softmax.int")],
    ("softmax.int", (i(3, 4), -1, torch.float32)),
    *[(f"{n}.int", (torch.zeros(2, 0), -1)) for n in ("softmax", "log_softmax")],
    ("_safe_softmax", (torch.tensor([[1.0, 2.0], [-math.inf, -math.inf]]), 1)),
    ("_to_copy", (f(3, 4),), {"dtype": torch.int64}),
    ("_to_copy", (f(3, 4),), {"dtype": torch.float16}),
    ("_to_copy", (i(3, 4),), {"dtype": torch.bool}),
    ("_to_copy", (b(3, 4),), {"dtype": torch.float32}),
    ("_to_copy", (f(3, 4),), {}),
    ("to.dtype", (f(3, 4), torch.int32)),
    ("to.other", (f(3, 4), i(2))),
    ("type_as", (f(3, 4), i(2))),
    ("copy", (f(3, 4), i(4))),
    ("fake_quantize_per_tensor_affine", (f(3, 4), 0.1, 2, -10, 10)),
    ("fake_quantize_per_channel_affine", (f(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2], dtype=torch.int32), 0, -10, 10)),
]  # fmt: skip
