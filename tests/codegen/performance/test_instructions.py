"""Instructions of the loops of PTX."""

from __future__ import annotations

import pytest

from tilewright.codegen.performance.instructions import kind_of, loops_of, step_of

PTX = """
.visible .entry first_kernel(.param .u64 first_kernel_param_0)
{
	.reg .pred 	%p<3>;
	mov.u32 	%r1, %tid.x;
$L__BB0_1:
	add.s32 	%r2, %r2, 1;
	@%p1 bra $L__BB0_3;
	cp.async.cg.shared.global [%r3], [%rd1], 16;
$L__BB0_2:
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r4}, {%r5}, {%f1};
	setp.lt.s32 	%p2, %r2, 64;
	shl.b32 %r6, %r2, 4;
	@%p2 bra 	$L__BB0_2;
$L__BB0_3:
	st.shared.u32 [%r7], %r6;
	@%p1 bra $L__BB0_1;
	ret;
}
.visible .entry second_kernel()
{
	ret;
}
"""


def test_loops() -> None:
    inner, outer = loops_of(PTX)
    assert (inner.kernel, inner.label) == ("first_kernel", "$L__BB0_2")
    assert inner.counts == {"matrix": 1, "integer": 2, "control": 1} and inner.total == 4
    assert outer.counts == {"integer": 3, "control": 3, "copy": 1, "matrix": 1, "shared": 1}
    assert step_of(PTX) == outer and step_of(PTX, "second_kernel") is None, "the last steps of a pipeline copy nothing"


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "matrix"),
        ("wgmma.fence.sync.aligned", "wait"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", "copy"),
        ("cp.async.wait_group", "wait"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared"),
        ("ld.global.nc.v2.f32", "global"),
        ("setp.gt.f32", "float"),
        ("mad.lo.s32", "integer"),
        ("cvt.u64.u32", "integer"),
        ("mov.b32", "move"),
        ("nanosleep.u32", "other"),
    ],
)
def test_kinds(instruction: str, kind: str) -> None:
    assert kind_of(instruction) == kind
