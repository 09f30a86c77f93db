"""Matrix products by the BLAS of NumPy's package, as external tensor operations with their classic names."""

from __future__ import annotations

from tilewright.contrib.libraries import batch_matmul_by, matmul_by

matmul, batch_matmul = matmul_by("cblas"), batch_matmul_by("cblas")
