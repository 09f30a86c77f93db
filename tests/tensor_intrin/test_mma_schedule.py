"""The schedule of products whose tile sizes and instructions tests choose (`testing.tir`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tensor_intrin.on_devices import as_on_device, inputs_of, results
from tests.tensor_intrin.products import plain
from tilewright.testing.tir import mma_schedule
from tilewright.tir.tensor_intrin import cuda, mma_layouts


@pytest.mark.parametrize(("dtype", "sums", "trans_b", "scope"), [
    ("float16", "float32", False, "shared"),
    ("int8", "int32", True, "shared.dyn"),
])  # fmt: skip
def test_product(dtype: str, sums: str, trans_b: bool, scope: str) -> None:
    """Blocks of two and of four warps, each with several tiles, compute what the plain product says, without races."""
    k_inner = 16 if dtype == "float16" else 32
    func = plain(dtype, sums, False, trans_b, m=64, n=64)
    names = cuda.get_mma_intrin_group(scope, "global", dtype, sums, False, trans_b, False)
    s = mma_schedule(
        workload=func,
        k_inner=k_inner,
        in_dtype=dtype,
        b_transposed=trans_b,
        i_factors=[1, 1, 2, 1, 2],
        j_factors=[1, 1, 2, 2, 1] if trans_b else [1, 2, 1, 2, 1],
        k_factors=[1, 1, 2] if trans_b else [1, 2, 1],
        index_map_A=mma_layouts.operand_layout(k_inner, "A", False),
        index_map_B=mma_layouts.operand_layout(k_inner, "B", trans_b),
        index_map_C=cuda.shared_16x16_to_ldmatrix_32x8_layout,
        ldmatrix_a_intrin=names["load_a"],
        ldmatrix_b_intrin=names["load_b"],
        mma_intrin=names["compute"],
        mma_fill_intrin=names["init"],
        mma_store_intrin=names["store"],
        shared_scope=scope,
    )
    text = s.mod.script()
    assert "ptx_ldmatrix" in text and "ptx_mma" in text and "mma_store" in text
    inputs = inputs_of(func)
    a, b = [x.astype(sums) for x in inputs[:2]]
    found = results(as_on_device(s.mod), inputs, check_races=True)[2]
    np.testing.assert_array_equal(found, a @ (b.T if trans_b else b))
