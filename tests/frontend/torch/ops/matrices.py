"""Factorisations of matrices, and equations."""

from __future__ import annotations

import numpy as np
import torch

from tests.frontend.torch.ops import Sample, f

square, batch, wide = f(4, 4) + 3 * torch.eye(4), f(2, 3, 3) + 3 * torch.eye(3), f(2, 3, 5)
positive = batch @ batch.mT
lower = torch.linalg.cholesky(positive)
symmetric = batch + batch.mT - 6 * torch.eye(3)
hollow = symmetric - torch.diag_embed(symmetric.diagonal(dim1=-2, dim2=-1))
factors, swaps = torch.linalg.lu_factor(batch)
reflections, scales = torch.geqrf(f(5, 3))

SAMPLES: list[Sample] = [
    *[("linalg_inv_ex", (a,)) for a in (square, batch)],
    ("inverse", (batch,)),
    *[(n, (batch,)) for n in ("linalg_det", "det", "linalg_slogdet", "slogdet")],
    ("linalg_cholesky_ex", (positive,)),
    ("linalg_cholesky_ex", (positive,), {"upper": True}),
    ("cholesky", (positive,)),
    *[("cholesky_solve", (f(2, 3, 2), lower.mT if u else lower, u)) for u in (True, False)],
    ("cholesky_inverse", (lower,)),
    *[("linalg_solve", (a, b)) for a, b in ((square, f(4, 2)), (square, f(4)), (batch, f(2, 3, 2)), (batch, f(2, 3)))],
    ("linalg_solve", (square, f(2, 4)), {"left": False}),
    *[("linalg_solve_triangular", (batch, f(2, 3, 2)), {"upper": u, "unitriangular": o}) for u in (True, False) for o in (True, False)],
    ("linalg_solve_triangular", (square, f(2, 4)), {"upper": True, "left": False}),
    *[("triangular_solve", (f(2, 3, 2), batch, u, t)) for u in (True, False) for t in (True, False)],
    *[("linalg_lu_factor_ex", (a,)) for a in (square, batch, wide)],
    *[("linalg_lu", (a,)) for a in (square, batch, wide)],
    *[("linalg_lu_solve", (factors, swaps, f(2, 3, 2)), {"adjoint": a}) for a in (True, False)],
    *[("linalg_pinv.atol_rtol_float", (a,)) for a in (square, wide, wide.mT)],
    ("linalg_pinv", (wide, 0.1)),
    *[("linalg_matrix_exp", (a,)) for a in (square, batch * 3)],
    ("linalg_householder_product", (reflections, scales)),
    *[("geqrf", (a,)) for a in (square, wide, wide.mT)],
    *[("ormqr", (reflections, scales, f(5, 2), True, t)) for t in (True, False)],
    ("ormqr", (reflections, scales, f(2, 5), False, True)),
    *[("lu_unpack", torch.linalg.lu_factor(a)) for a in (batch, wide, wide.mT)],
    *[("cholesky", (torch.zeros(shape),)) for shape in ((0, 0), (0, 3, 3))],
    *[("linalg_lu_factor_ex", (torch.zeros(shape),)) for shape in ((0, 3, 5), (2, 0, 3))],
    *[("linalg_lu_solve", (factors, swaps, f(2, 2, 3)), {"left": False, "adjoint": a}) for a in (True, False)],
    ("linalg_pinv", (square, 1e-6, True)),
    ("linalg_pinv.atol_rtol_tensor", (wide,), {"atol": torch.tensor([0.1, 2.0])}),
    ("linalg_pinv.atol_rtol_tensor", (wide,), {"rtol": torch.tensor(0.5)}),
    *[("linalg_norm", (wide,), {"ord": p, "dim": d, "keepdim": k})
        for p in (1, -1, 2, -2, np.inf) for d in ([0, 2], [1]) for k in (True, False)],
    *[("linalg_norm", (a, p)) for a in (square, f(4)) for p in (None, 2, 1)],
    *[("linalg_norm.ord_str", (square, p)) for p in ("fro", "nuc")],
    *[("linalg_matrix_norm", (wide, p)) for p in (1, 2, np.inf)],
    ("linalg_matrix_norm.str_ord", (wide, "nuc")),
    *[("linalg_ldl_factor_ex", (a,)) for a in (positive, symmetric, hollow)],
    *[("linalg_ldl_solve", (*torch.linalg.ldl_factor(a), f(2, 3, 2))) for a in (positive, hollow)],
]  # fmt: skip

FIRST: list[Sample] = [
    ("_linalg_det", (batch,)),
    ("_linalg_solve_ex", (batch, f(2, 3, 2))),
    ("linalg_lstsq", (f(2, 5, 3), f(2, 5, 2))),
]
"""Operators of which only the first result is supported."""
