"""Steps that are done as a whole or not at all."""

from __future__ import annotations

import pytest

from tests.meta_schedule.kernels import gemm
from tilewright.node import structural_equal
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule


def test_steps_before_a_refused_one_are_undone() -> None:
    sch = Schedule(gemm(), error_render_level="fast")
    i, j, k = sch.get_loops(sch.get_block("C"))
    before = sch.mod

    def refused(s: Schedule) -> None:
        s.parallel(s.fuse(j, k))

    with pytest.raises(ScheduleError):
        refused(sch.copy())
    assert not sch.attempt(refused)
    assert structural_equal(sch.mod, before) and sch.trace is not None and len(sch.trace.insts) == 2
    # Handles are valid, those of loops that were fused too.
    assert sch.attempt(lambda s: s.parallel(s.fuse(i, j)))
    assert "T.parallel" in str(sch.mod)
    sch.unroll(k)
