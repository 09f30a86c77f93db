"""Operators that read and write elements at places that are data."""

from __future__ import annotations

import torch

from tests.frontend.torch.ops import Sample, b, f, i

rows, columns = torch.tensor([0, 2, -1]), torch.tensor([[1, -2], [0, 3], [2, 2]])
grid = torch.tensor([[0, 1, 2, 0], [2, 0, 0, 1]])
distinct = torch.tensor([[0, 1, 2, 0], [2, 0, 1, 1]])

SAMPLES: list[Sample] = [
    ("embedding", (f(5, 3), i(2, 4, low=0, high=5))),
    ("embedding", (f(5, 3), i(2, 4, low=0, high=5, dtype=torch.int32), 1)),
    ("index_select", (f(3, 4), 1, torch.tensor([3, 0]))),
    ("take", (f(3, 4), torch.tensor([3, -1, 5]))),
    ("gather", (f(3, 4), 0, grid)),
    ("gather", (f(5), 0, grid[:, :0])),
    ("gather", (f(3, 4), 1, grid)),
    ("take_along_dim", (f(3, 4), torch.tensor([[0], [1], [3]]), 1)),
    ("index.Tensor", (f(3, 4), [rows])),
    ("index.Tensor", (f(3, 4), [None, columns])),
    ("index.Tensor", (f(3, 4), [rows, torch.tensor([1, -1, 0])])),
    ("index.Tensor", (f(3, 4), [torch.tensor([[0], [2]]), torch.tensor([1, 3, 0])])),
    ("index.Tensor", (f(2, 3, 4), [None, rows, torch.tensor([1, -1, 0])])),
    ("index.Tensor", (f(3, 2, 4), [rows, None, torch.tensor([1, -1, 0])])),
    ("index.Tensor", (f(2, 3, 4, 5), [None, rows, torch.tensor([[1], [2]])])),
    ("index_put", (f(3, 4), [rows], f(4))),
    ("index_put", (f(3, 4), [None, torch.tensor([0, 2])], f(3, 2))),
    ("index_put", (f(3, 4), [torch.tensor([0, 1, 0]), torch.tensor([1, -1, 1])], f(3)), {"accumulate": True}),
    ("index_put", (f(2, 3, 4), [None, torch.tensor([0, 2]), torch.tensor([1, 3])], f(2, 2))),
    ("index_put", (f(3, 4), [torch.tensor(1)], f(4))),
    ("index_put", (f(3, 4), [b(3, 4)], torch.tensor(7.0))),
    ("index_put", (f(3, 4), [b(3)], torch.tensor(7.0))),
    ("index_copy", (f(3, 4), 1, torch.tensor([3, 0]), f(3, 2))),
    ("index_add", (f(3, 4), 0, torch.tensor([1, 1]), f(2, 4)), {"alpha": 2}),
    ("index_fill.int_Scalar", (f(3, 4), 1, torch.tensor([3, 0]), 9.0)),
    ("scatter.src", (f(3, 4), 0, distinct, f(2, 4))),
    ("scatter.src", (f(3, 4), 0, distinct[:1, :3], f(2, 4))),
    ("scatter.value", (f(3, 4), 0, distinct, 2.5)),
    ("scatter.reduce", (f(3, 4), 0, grid, f(2, 4)), {"reduce": "multiply"}),
    ("scatter_add", (f(3, 4), 0, grid, f(2, 4))),
    *[("scatter_reduce.two", (f(3, 4), 0, grid, f(2, 4), r), {"include_self": s})
        for r in ("sum", "prod", "mean", "amax", "amin") for s in (True, False)],
    *[("scatter_reduce.two", (b(3, 4), 0, grid, b(2, 4), r), {"include_self": s})
        for r in ("sum", "prod", "amax", "amin") for s in (True, False)],
    ("slice_scatter", (f(5, 4), f(2, 4), 0, 1, 3)),
    ("slice_scatter", (f(5, 4), f(5, 2), 1, 0, 9223372036854775807, 2)),
    ("slice_scatter", (f(5, 4), f(5, 4), 1)),
    ("select_scatter", (f(3, 4), f(4), 0, -1)),
    *[(n, (torch.tensor(2.5), 0, torch.tensor([0]), v)) for n, v in
        (("index_add", torch.tensor(1.5)), ("index_copy", torch.tensor(1.5)), ("index_fill.int_Scalar", 3.0))],
    ("index_reduce", (torch.tensor(2.5), 0, torch.tensor([0]), torch.tensor(1.5), "mean")),
    *[("index_reduce", (f(4, 3), d, torch.tensor([2, 0, 2]), f(3, 3) if d == 0 else f(4, 3), r), {"include_self": k})
        for d in (0, 1) for r in ("prod", "mean", "amax", "amin") for k in (True, False)],
    ("diagonal_scatter", (f(3, 4), f(3), 1)),
    ("diagonal_scatter", (f(3, 4, 5), f(5, 3), 0, 0, 1)),
    ("diagonal_scatter", (f(3, 4, 5), f(4, 2), 1, 2, 0)),
    ("diagonal_scatter", (f(3, 4, 5), f(3, 3), -1, -2, -1)),
    ("masked_scatter", (f(3, 4), b(3, 4), f(12))),
    ("masked_scatter", (f(3, 4), b(4), f(12))),
    *[("put", (f(3, 4), torch.tensor([[1, -2], [5, 5]]), f(2, 2), a)) for a in (True,)],
    ("put", (f(3, 4), torch.tensor([1, -2]), f(2))),
    ("as_strided_scatter", (f(3, 4), f(2, 2), [2, 2], [4, 2], 1)),
    ("embedding_renorm", (f(4, 3), torch.tensor([[0, 2], [2, 0]]), 1.0, 2.0)),
    *[("segment_reduce", (f(5, 2), r), {"lengths": torch.tensor([2, 0, 3]), "initial": s})
        for r in ("sum", "mean", "max", "min", "prod") for s in (None, 1.5)],
    ("segment_reduce", (f(2, 5), "max"), {"offsets": torch.tensor([[0, 2, 5], [0, 4, 5]]), "axis": 1}),
    *[("searchsorted.Tensor", (f(3, 4), f(3, 2)), {"sorter": f(3, 4).argsort(-1), "right": r}) for r in (True, False)],
    ("one_hot", (i(2, 3, low=0, high=4), 5)),
    ("sym_size.int", (f(3, 4), -1)),
]  # fmt: skip

KNOWN: list[Sample] = [
    ("index.Tensor", (f(3, 4), [b(3, 4)])),
    ("index.Tensor", (f(3, 4), [None, b(4)])),
    ("index_put", (f(3, 4), [b(3, 4)], f(int(b(3, 4).sum())))),
    ("nonzero", (b(3, 4),)),
    ("masked_select", (f(3, 4), b(4))),
    ("masked_select", (torch.tensor(2.0), torch.tensor(True))),
    ("repeat_interleave.self_Tensor", (f(3, 2), torch.tensor([2, 0, 1]), 0)),
    ("_local_scalar_dense", (torch.tensor(3),)),
]
"""Operators that must know the integers and truth values among their inputs."""

SEGMENTS: list[Sample] = [
    ("_embedding_bag", (f(5, 3), torch.tensor([1, 4, 2, 2]), torch.tensor([0, 1]))),
    *[
        (
            "embedding_bag.padding_idx",
            (f(5, 3), torch.tensor([1, 4, 2, 2]), torch.tensor([0, 1]), False, 1, False, None, False, k),
        )
        for k in (None, 2, -1)
    ],
    ("_embedding_bag", (f(5, 3), torch.tensor([1, 4, 2, 2]), torch.tensor([0, 1]), False, 1)),
    ("_embedding_bag", (f(5, 3), torch.tensor([1, 4, 2, 2]), torch.tensor([0, 1]), False, 2)),
    *[
        (
            "_embedding_bag",
            (f(5, 3), torch.tensor([1, 4, 2, 2]), torch.tensor([0, 1, 1, 4]), False, m, False, None, True, 2),
        )
        for m in (0, 1, 2)
    ],
    ("_embedding_bag", (f(5, 3), torch.tensor([1, 4, 2, 2]), torch.tensor([0, 3]), False, 0, False, f(4))),
]
"""Sums of rows, of which only the first result is supported."""
