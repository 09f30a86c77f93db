"""Reductions, running totals, sorting."""

from __future__ import annotations

import math

import torch

from tests.frontend.torch.ops import Sample, b, f, i

ties = torch.tensor([[3.0, 1.0, 3.0, 2.0], [1.0, 1.0, 0.0, 1.0]])
holes = torch.tensor([[3.0, math.nan, -1.0, 2.0, 7.0], [math.nan, 1.0, 0.0, math.nan, 5.0]])

SAMPLES: list[Sample] = [
    *[(n, (f(3, 4),)) for n in ("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "std", "var", "count_nonzero")],
    *[(n, (i(3, 4),)) for n in ("sum", "prod", "max", "min", "argmax", "any", "all")],
    *[(n, (b(3, 4),)) for n in ("sum", "any", "all", "max", "amin")],
    ("any", (i(3, 4, dtype=torch.uint8),)),
    *[(f"{n}.dim_IntList", (f(2, 3, 4), [0, -1], k)) for n in ("sum",) for k in (True, False)],
    ("sum.dim_IntList", (i(2, 3), None)),
    ("sum.dim_IntList", (i(2, 3), [1]), {"dtype": torch.float32}),
    ("nansum", (torch.tensor([1.0, math.nan]), [0])),
    *[("mean.dim", (f(2, 3, 4, 5), [2, 3], k)) for k in (True, False)],
    ("mean.dim", (f(2, 3, 4), [1])),
    ("mean", (i(2, 3),), {"dtype": torch.float32}),
    ("prod.dim_int", (f(2, 3), 1, True)),
    *[(n, (f(2, 3, 4), [1], True)) for n in ("amax", "amin")],
    ("aminmax", (f(2, 3),), {"dim": 1}),
    *[(f"{n}.dim", (ties, 1)) for n in ("max", "min")],
    *[(f"{n}.dim", (i(3, 4), 0, True)) for n in ("max", "min")],
    *[(n, (ties, 1)) for n in ("argmax", "argmin")],
    ("argmax", (f(3, 4), None, True)),
    *[(f"{n}.dim", (b(3, 4), 1)) for n in ("any", "all")],
    *[(f"{n}.dims", (b(3, 4), [0, 1])) for n in ("any", "all")],
    ("any.dim", (f(3, 4), 0, True)),
    ("count_nonzero.dim_IntList", (i(3, 4), [1])),
    *[("logsumexp", (f(2, 3), [1], k)) for k in (True, False)],
    *[(f"{n}.correction", (f(3, 4), [1]), {"correction": k, "keepdim": True})
        for n in ("var", "std", "var_mean", "std_mean") for k in (0, 1)],
    ("var.dim", (f(3, 4), [0], False)),
    ("std.dim", (f(3, 4), [0, 1], True, True)),
    ("var_mean.dim", (f(3, 4), [1])),
    *[("linalg_vector_norm", (f(3, 4), p, [1])) for p in (2, 1, 3, math.inf, -math.inf, 0)],
    ("norm.ScalarOpt_dim", (f(3, 4), 2, [0], True)),
    ("norm.Scalar", (f(3, 4),)),
    ("frobenius_norm.dim", (f(3, 4), [1])),
    ("dist", (f(5), f(5, seed=1))),
    *[(n, (f(3, 4), 1)) for n in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")],
    *[(n, (i(3, 4), 0)) for n in ("cumsum", "cumprod", "cummax")],
    ("cumsum", (b(5), 0)),
    ("cummax", (torch.tensor([1.0, 1.0, 0.0, 2.0, 2.0]), 0)),
    *[("sort", (f(3, 4), 1, d)) for d in (True, False)],
    ("sort", (i(7, 3), 0)),
    *[("sort.stable", (ties,), {"stable": True, "dim": 1, "descending": d}) for d in (True, False)],
    ("argsort", (f(3, 4), 0)),
    *[("topk", (f(3, 6), 3, 1, g)) for g in (True, False)],
    ("topk", (torch.tensor(2.5), 1)),
    ("kthvalue", (f(3, 5), 2, 1)),
    ("median", (f(3, 5),)),
    ("median.dim", (f(3, 5), 1, True)),
    *[(n, (torch.tensor(2.5), *more)) for n, more in (("kthvalue", (1,)), ("median.dim", (0,)), ("cummax", (0,)), ("mode", ()))],
    ("nanmedian", (holes,)),
    *[("nanmedian.dim", (x, 1, k)) for x in (holes, torch.full((2, 3), math.nan)) for k in (True, False)],
    *[("mode", (i(3, 9, low=0, high=4), d, k)) for d in (0, -1) for k in (True, False)],
    ("mode", (ties,)),
    *[("searchsorted.Tensor", (torch.tensor([1.0, 2.0, 4.0]), f(2, 3, low=0, high=5)), {"right": r})
        for r in (True, False)],
    ("searchsorted.Scalar", (torch.tensor([1.0, 2.0, 4.0]), 3.0)),
    ("bucketize.Tensor", (f(2, 3, low=0, high=5), torch.tensor([1.0, 2.0, 4.0]))),
    *[("histc", (x, 4, *ends)) for x in (f(9), torch.full((3,), 2.0), torch.empty(0)) for ends in ((), (-1, 1))],
    *[("histogram.bin_ct", (x, 4), more) for x in (f(3, 3), torch.full((3,), 2.0), torch.empty(0))
        for more in ({}, {"range": [-1.0, 1.5], "weight": x * x, "density": x.numel() > 5})],
    ("histogram.bins_tensor", (f(9), torch.tensor([-1.0, 0.0, 0.5, 2.0])), {"density": True}),
    ("_histogramdd_bin_edges", (f(9, 2), [2, 3])),
    ("_histogramdd_from_bin_cts", (f(9, 2), [2, 3]), {"density": True}),
    ("_histogramdd_from_bin_tensors", (f(9, 2), [torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([-1.0, 1.0])])),
    ("logcumsumexp", (torch.tensor(2.0), 0)),
    ("cosine_similarity", (f(3, 4), f(3, 4, seed=1))),
    ("cdist", (f(2, 3, 4), f(2, 5, 4))),
    ("_cdist_forward", (f(3, 4), f(5, 4), 1.0, None)),
    ("_pdist_forward", (f(4, 3), 2.0)),
]  # fmt: skip
