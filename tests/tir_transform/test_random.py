"""Every pass of the pipeline keeps the meaning of random scheduled programs, is idempotent, and leaves its stage's form."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from tests.generators.programs import random_program, random_schedule
from tilewright.codegen.interp import run
from tilewright.driver.pipeline import lower_phases
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.tir.analysis import verify_stage, verify_well_formed
from tilewright.tir.transform import (
    CommonSubexprElimTIR,
    ConvertSSA,
    HoistExpression,
    InstrumentBoundCheckers,
    LowerIntrin,
    NarrowDataType,
    PointerValueTypeRewrite,
    RenormalizeSplitPattern,
    RewriteUnsafeSelect,
    SkipAssert,
    UnrollLoop,
)

EXTRA = [
    InstrumentBoundCheckers, UnrollLoop, SkipAssert, ConvertSSA, HoistExpression, RewriteUnsafeSelect, NarrowDataType,
    RenormalizeSplitPattern, CommonSubexprElimTIR, PointerValueTypeRewrite, LowerIntrin,
]  # fmt: skip


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    func = random_schedule(program.func, rng, rng.choice([0, 4, 8, 14]))

    def outputs(mod: Any) -> list[Any]:
        arrays = program.arrays(seed)
        run(mod, arrays)
        return arrays

    expected = outputs(program.func)
    mod = IRModule({"main": func.with_attr("global_symbol", "main")})
    passes = [p for phase in lower_phases(PassContext()) for p in phase]
    passes += [make() for make in EXTRA]
    have: set[str] = set()
    for p in passes:
        new = p(mod)
        try:
            have.update(p.info.gives)
            verify_well_formed(new)
            verify_stage(new, have)
            for a, b in zip(expected, outputs(new), strict=True):
                if isinstance(a, np.ndarray):
                    np.testing.assert_array_equal(a.astype("float64"), b.astype("float64"))
        except Exception as error:
            raise AssertionError(
                f"seed {seed}: {p.name} broke the program: {error}\n--- before\n{mod}\n--- after\n{new}"
            ) from error
        mod = new


@pytest.mark.parametrize("seed", range(int(os.environ.get("FUZZ_FROM", "0")), int(os.environ.get("FUZZ_TO", "60"))))
def test_random_program(seed: int) -> None:
    check_seed(seed)
