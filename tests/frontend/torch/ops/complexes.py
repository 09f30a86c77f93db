"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import torch

from tests.frontend.torch.ops import Sample, f

z, w = torch.complex(f(3, 4), f(3, 4, seed=1)), torch.complex(f(4, seed=2), f(4, seed=3))
half = torch.complex(f(3, 5), f(3, 5, seed=1))

SAMPLES: list[Sample] = [
    *[("_fft_r2c", (f(3, 8), [1], n, one)) for n in (0, 1, 2) for one in (True, False)],
    ("_fft_r2c", (f(2, 5, 7), [1, 2], 0, True)),
    ("_fft_r2c", (f(9), [0], 0, True)),
    *[("_fft_c2c", (z, [0, 1], n, way)) for n in (0, 2) for way in (True, False)],
    *[("_fft_c2r", (half, [1], 2, size)) for size in (8, 9)],
    ("_fft_c2r", (half, [0, 1], 1, 8)),
    ("complex", (f(3), f(3, seed=1))),
    ("complex", (f(2, 1), f(3, seed=1))),
    ("polar", (f(3), f(3, seed=1))),
    ("view_as_complex", (f(3, 4, 2),)),
    ("view_as_real", (z,)),
    ("real", (z,)),
    ("abs", (z,)),
    ("angle", (z,)),
    ("angle", (f(5),)),
    ("exp", (z,)),
    *[(f"{name}.Tensor", (z, w)) for name in ("add", "sub", "mul", "div")],
    *[(f"{name}.Tensor", (z, f(4))) for name in ("add", "mul", "div")],
    ("mul.Tensor", (f(4), z)),
    ("mul.Tensor", (z, 2.0)),
    ("transpose.int", (z, 0, 1)),
    ("reshape", (z, [2, 6])),
    ("cat", ([z, z], 1)),
    ("slice.Tensor", (z, 1, 1, 3)),
    ("_to_copy", (f(3),), {"dtype": torch.complex64}),
    ("matmul", (z, z.mT.contiguous())),
    ("mm", (z, torch.complex(f(4, 2), f(4, 2, seed=1)))),
    ("bmm", (z.reshape(2, 3, 2), z.reshape(2, 2, 3))),
    *[(n, (z,)) for n in ("square", "reciprocal", "sqrt", "log", "zeros_like", "ones_like")],
    *[("pow.Tensor_Scalar", (z, e)) for e in (2, 3, 0.5)],
    *[(f"{n}.Tensor", (z, torch.where(f(3, 4) > 0, z, z + 1))) for n in ("eq", "ne")],
    ("diag_embed", (w,)),
]
