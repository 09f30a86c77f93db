"""Operators that make tensors."""

from __future__ import annotations

import torch

from tests.frontend.torch.ops import Sample, f, i

SAMPLES: list[Sample] = [
    *[(n, ([2, 3],)) for n in ("zeros", "ones")],
    ("zeros", ([2, 3],), {"dtype": torch.int64}),
    *[(n, (i(2, 3),)) for n in ("zeros_like", "ones_like")],
    *[(n, (f(2, 3), [4])) for n in ("new_zeros", "new_ones")],
    ("full", ([2, 3], 7)),
    ("full", ([2, 3], 2.5), {"dtype": torch.float64}),
    ("full", ([], True)),
    ("full_like", (f(2, 3), 3)),
    ("new_full", (f(2, 3), [2], 3)),
    ("fill.Scalar", (f(2, 3), 3)),
    ("fill.Tensor", (f(2, 3), torch.tensor(3.0))),
    ("scalar_tensor", (3,)),
    ("scalar_tensor", (3,), {"dtype": torch.int64}),
    ("arange", (5,)),
    ("arange.start", (2, 5.5)),
    ("arange.start_step", (5, 1, -2)),
    ("arange.start_step", (0, 1, 0.25)),
    ("arange.start_step", (0, 70000, 1)),
    ("linspace", (0, 1, 5)),
    ("logspace", (0, 1, 5)),
    ("linspace.Tensor_Tensor", (torch.tensor(2.0), torch.tensor(-1.0), 5)),
    ("linspace.Tensor_Scalar", (torch.tensor(2), 7, 4), {"dtype": torch.int64}),
    ("linspace.Scalar_Tensor", (0.5, torch.tensor(3.0), 1)),
    ("logspace.Tensor_Scalar", (torch.tensor(0.0), 2.0, 4, 3.0)),
    ("eye", (3,)),
    ("eye.m", (3, 4)),
    ("tril_indices", (3, 4, 1)),
    ("triu_indices", (3, 4)),
    ("hann_window", (6,)),
    ("hann_window.periodic", (6, False)),
    ("hamming_window", (6,)),
    ("hamming_window.periodic_alpha_beta", (6, False, 0.6, 0.3)),
    ("blackman_window", (6,)),
    ("vander", (torch.tensor([1.0, 2.0, 3.0]),)),
]

SHAPES: list[Sample] = [
    ("empty.memory_format", ([2, 3],)),
    ("empty_strided", ([2, 3], [3, 1])),
    ("rand", ([2, 3],)),
    ("uniform", (f(2, 3), -1.0, 2.0)),
    ("normal_functional", (f(2, 3), 1.0, 0.5)),
    ("normal.Tensor_float", (f(2, 3), 0.5)),
    ("normal.float_Tensor", (1.0, f(3, low=0.5))),
    ("normal.Tensor_Tensor", (f(2, 1), f(3, low=0.5))),
    ("normal.float_float", (1.0, 0.5, [2, 3])),
    ("bernoulli", (f(2, 3, low=0.0, high=1.0),)),
    ("bernoulli.p", (f(2, 3), 0.25)),
    *[("multinomial", (f(2, 5, low=0.1), 3, r)) for r in (True, False)],
    ("randn", ([2, 3],)),
    ("randperm", (6,)),
    ("randint", (5, [2, 3])),
    ("rand_like", (f(2, 3),)),
    ("_native_batch_norm_legit", (f(2, 3, 4), f(3), f(3), f(3), f(3), True, 0.1, 1e-5)),
]
"""Operators of which only shapes and types can be compared: what is random or not set, and statistics that are written in place."""
