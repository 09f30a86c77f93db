"""Products on warpgroups: which products the rule takes, and that its kernels compute what their programs say."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tests.scheduling.gpu.test_convolutions import convolution
from tests.scheduling.gpu.test_products import check, matmul
from tilewright import tir
from tilewright.driver import lower
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tir.tensor_intrin.wgmma import Operand, get_wgmma_intrin, wgmma_intrin_name
from tilewright.tir.transform.thread.boxes import SWIZZLE
from tilewright.tir.transform.thread.warp_specialization import SPECIALIZED

HOPPER = "cuda -arch=sm_90a -model=h200"
HALF = ("float16", "float32")
SMALL: dict[str, tuple[tir.PrimFunc, list[int]]] = {
    "epilogue, sides that are no multiples": (matmul(60, 56, 72, *HALF, epilogue=True), [64, 64, 64, 2, 128]),
    "int8": (matmul(64, 64, 256, "int8", "int32"), [64, 64, 128, 2, 128]),
    "sums in float16": (matmul(64, 64, 64, "float16", "float16"), [64, 64, 64, 2, 128]),
    "rows along m and n": (matmul(64, 64, 64, *HALF, True, False), [64, 64, 64, 2, 128]),
    "rows along m, 64 bytes": (matmul(64, 64, 64, *HALF, True, True), [64, 64, 64, 2, 64]),
    "no swizzle": (matmul(64, 64, 64, *HALF), [64, 64, 64, 2, 0]),
}
LARGE: dict[str, tuple[tir.PrimFunc, list[int]]] = {
    "two warpgroups": (matmul(128, 128, 256, *HALF), [128, 128, 64, 3, 128]),
    "three warpgroups": (matmul(192, 128, 128, *HALF), [192, 128, 64, 3, 128]),
    "wide": (matmul(128, 256, 128, *HALF, True, False), [128, 256, 64, 3, 128]),
    "strips": (matmul(256, 256, 64, *HALF), [64, 64, 64, 2, 128]),
    "batch": (matmul(64, 64, 128, *HALF, batch=(2,)), [64, 64, 64, 2, 128]),
    "bfloat16, 32 bytes": (matmul(64, 64, 128, "bfloat16", "float32"), [64, 64, 64, 3, 32]),
    "float8": (matmul(64, 128, 256, "float8_e4m3fn", "float32"), [64, 128, 128, 3, 128]),
    "tf32": (matmul(64, 64, 64, "float32", "float32"), [64, 64, 32, 2, 128]),
    "uint8": (matmul(64, 64, 128, "uint8", "int32"), [64, 64, 128, 3, 64]),
    "rows along m without swizzle": (matmul(64, 64, 64, *HALF, True, False), [64, 64, 64, 2, 0]),
    "rows along m, 32 bytes": (matmul(64, 64, 64, *HALF, True, False), [64, 64, 64, 2, 32]),
}


def target_of(name: str) -> str:
    """The target of a product of LARGE."""
    return f"{HOPPER} -allow-tf32=1" if name == "tf32" else HOPPER


@pytest.mark.parametrize("name", SMALL)
def test_products(name: str) -> None:
    func, tile = SMALL[name]
    text = check(func, HOPPER, {"C.warpgroups": tile}, "ptx_wgmma")
    assert "ptx_tma_load" in text and "ptx_mma" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_larger_products(name: str) -> None:
    func, tile = LARGE[name]
    check(func, target_of(name), {"C.warpgroups": tile}, "ptx_wgmma")


def decided(func: tir.PrimFunc, target: str = HOPPER, given: dict[str, Any] | None = None) -> Any:
    plan = KernelPlan(target, given)
    scheduled(func, Target(target), plan)
    assert not plan.fallbacks
    return plan.values().get("C.warpgroups")


def test_the_choice() -> None:
    """Large products with types that wgmma has, on the architecture that has it, and where nobody decided the tile of a warp."""
    large = matmul(4096, 4096, 4096, *HALF)
    assert decided(large) == [128, 256, 64, 4, 128]
    assert decided(large, "cuda -arch=sm_90") is None and decided(large, "cuda -arch=sm_80") is None
    assert decided(large, given={"C.tile": [128, 128, 32, 64, 32, 3]}) == []
    assert decided(large, given={"C.warpgroups": [128, 128, 64, 5, 64]}) == [128, 128, 64, 5, 64]
    assert decided(matmul(16, 64, 64, *HALF)) == []
    assert decided(matmul(4096, 4096, 4096, "int8", "int32", True)) is None, "bytes run along k"
    assert decided(matmul(4096, 4096, 4092, *HALF)) is None, "rows are multiples of 16 bytes"


def test_the_next_architecture_has_none() -> None:
    """sm_100a: mma by warps. Warpgroups are refused, with the architecture that has them."""
    blackwell = "cuda -arch=sm_100a"
    assert decided(matmul(4096, 4096, 4096, *HALF), blackwell) is None
    func = matmul(64, 64, 64, *HALF)
    text = check(func, blackwell, {"C.tile": [32, 32, 32, 16, 16, 3], "C.parts": 1}, "ptx_mma")
    assert "ptx_cp_async" in text and "wgmma" not in text
    made = scheduled(func, Target(HOPPER), KernelPlan(HOPPER, {"C.warpgroups": [64, 64, 64, 2, 128]}))
    with pytest.raises(TVMError, match="wgmma needs -arch=sm_90a, but the target is for sm_100a"):
        tvm.build(made.mod, target=blackwell)


def test_names() -> None:
    a, b = Operand(False, 128), Operand(True, 64)
    assert wgmma_intrin_name("bfloat16", "float32", 128, a, b) == "wgmma_bf16bf16f32_n128_k128_m64"
    with pytest.raises(ValueError, match="no product of float16 with sums of int32"):
        get_wgmma_intrin("float16", "int32", 128, a, a)
    with pytest.raises(ValueError, match="rows run along k only"):
        get_wgmma_intrin("int8", "int32", 128, a, b)


def test_threads_of_a_warpgroup() -> None:
    """A marked loop of a kernel whose threads make no warpgroups is refused."""
    func = matmul(64, 64, 64, *HALF)
    s = Schedule(scheduled(func, Target(HOPPER), KernelPlan(HOPPER, {"C.warpgroups": []})).mod)
    loop = next(
        loop for loop in s.get_loops(s.get_block("C_update_o")) if "software_pipeline_stage" in s.get(loop).annotations
    )
    s.annotate(loop, "warp_specialized", 2)
    with pytest.raises(
        TVMError, match=r"a warpgroup is threadIdx.x of 32 and threadIdx.y of 4, but \[32, .* was given"
    ):
        lower(s.mod)


@pytest.mark.parametrize(
    ("block", "key", "value", "text"),
    [
        (
            "A_reindex_shared.dyn",
            SWIZZLE,
            None,
            "writes A_reindex_shared.dyn, which warpgroups share, but only copies of boxes may",
        ),
        ("", SPECIALIZED, 1, "has 1 stages, and 2 of its 3 statements are copies, but it needs two stages or more"),
        (
            "A_reindex_shared.dyn",
            SWIZZLE,
            64,
            r"a box \(64, 64\) of A has rows of 128 bytes, but the swizzle of 64 takes 64; choose",
        ),
    ],
)
def test_what_cannot_be_divided(block: str, key: str, value: int | None, text: str) -> None:
    """The error says what there is, where, and what to change."""
    func = matmul(64, 64, 128, *HALF)
    s = Schedule(scheduled(func, Target(HOPPER), KernelPlan(HOPPER, {"C.warpgroups": [64, 64, 64, 2, 128]})).mod)
    loops = s.get_loops(s.get_block("C_update_o"))
    at: Any = s.get_block(block) if block else next(x for x in loops if key in s.get(x).annotations)
    s.unannotate(at, key)
    if value is not None:
        s.annotate(at, key, value)
    with pytest.raises(TVMError, match=text):
        lower(s.mod)


@pytest.mark.parametrize("sizes", [(1, 9, 7, 72, 40), pytest.param((2, 8, 8, 64, 64), marks=pytest.mark.slow)])
def test_places_of_images_are_rows(sizes: tuple[int, ...]) -> None:
    """A convolution of one place, channels last, is a product of matrices: the places are numbered through."""
    tile = {"conv2d_nhwc.warpgroups": [64, 64, 64, 2, 128]}
    text = check(convolution("NHWC", *sizes, 1), HOPPER, tile, "ptx_wgmma")
    n, h, w, channels, _ = sizes
    assert f"x.data, 128, {n * h * w}, {channels}, {channels}, 64, 64)" in text


def test_other_convolutions_stay() -> None:
    for layout, kernel, stride in (("NHWC", 3, 1), ("NHWC", 1, 2), ("NCHW", 1, 1)):
        plan = KernelPlan(HOPPER)
        scheduled(convolution(layout, 2, 28, 28, 64, 128, kernel, stride), Target(HOPPER), plan)
        assert not [name for name in plan.values() if name.endswith(".warpgroups")]
