"""The rules, post-processors and mutators of kinds of targets."""

from __future__ import annotations

from tilewright.meta_schedule import mutator as M
from tilewright.meta_schedule import postproc as P
from tilewright.meta_schedule import schedule_rule as R
from tilewright.target import Target
from tilewright.tir.tensor_intrin.cuda import get_wmma_intrin_group

INTRINSICS = {
    "vnni": ("avx512vnni", "dot_16x4_vnni"),
    "avx512": ("avx512bw", "dot_16x4_avx512"),
    "dotprod": ("dotprod", "dot_4x4_i8i8s32_sdot"),
}
"""Kinds of CPUs with instructions for products of bytes: the feature of the processor, and the tensor intrinsic."""

TENSOR_CORES = 75
"""The least compute capability of NVIDIA's GPUs, as in "sm_75", whose matrix units the defaults use."""

GPUS = ("cuda", "rocm", "metal", "opencl", "vulkan", "webgpu")


def kind_of(target: Target | None) -> str:
    """The kind by which defaults are chosen. Raises ValueError without a target, or for one that has no defaults."""
    if target is None:
        raise ValueError("the rules of a design space depend on the target: give TuneContext one")
    name = target.kind.name
    if name in GPUS:
        digits = str(target.attrs.get("arch", "")).removeprefix("sm_")
        return "cuda-tensorcore" if name == "cuda" and digits.isdecimal() and int(digits) >= TENSOR_CORES else "cuda"
    if name == "hexagon":
        return "hexagon"
    if name in ("llvm", "c", "interp"):
        features = target.features if name == "llvm" else ()
        return next((kind for kind, (feature, _) in INTRINSICS.items() if feature in features), "llvm")
    raise ValueError(f"there are no default rules for the target kind {name!r}: give the space generator rules")


def _checked(kind: str) -> bool:
    """Whether a kind is a GPU. Raises ValueError for an unknown one."""
    known = ("llvm", "cuda", "cuda-tensorcore", "hexagon", *INTRINSICS)
    if kind not in known:
        raise ValueError(f"defaults are known for {', '.join(known)}, but {kind!r} was given")
    return kind.startswith("cuda")


def schedule_rules(kind: str) -> list[R.ScheduleRule]:
    """The rules of "llvm", "cuda", "cuda-tensorcore", "hexagon" or one of INTRINSICS, in the order in which they are applied."""
    if _checked(kind):
        return [
            R.ApplyCustomRule(),
            *([_tensor_cores()] if kind == "cuda-tensorcore" else []),
            R.MultiLevelTiling(
                "SSSRRSRS",
                ["blockIdx.x", "vthread.x", "threadIdx.x"],
                64,
                [1, 2, 3, 4, 8, 16],
                R.ReuseType("must", [4], "shared"),
                R.ReuseType("must", [3], "local"),
            ),
            R.InlineConstantScalars(),
            R.AutoInline(True, True, True, False, False, False, []),
            R.CrossThreadReduction([4, 8, 16, 32, 64, 128, 256, 512]),
            R.ParallelizeVectorizeUnroll(-1, -1, [0, 16, 64, 512, 1024], True),
            R.AutoBind(256, [32, 64, 128, 256, 512, 1024]),
        ]
    staged = R.ReuseType("may", [1, 2], "global")
    inlined = [
        R.ApplyCustomRule(),
        R.InlineConstantScalars(),
        R.AutoInline(False, True, True, True, True, True, ["tir.exp"]),
    ]
    if kind == "hexagon":
        return [
            *inlined,
            R.MultiLevelTilingWideVector("SRSRS", 1024, 128, None, staged),
            R.ParallelizeVectorizeUnroll(16, 128, [0, 16, 64, 512], True),
        ]
    return [
        *inlined,
        R.AddRFactor(16, 64),
        *[
            R.MultiLevelTilingWithIntrin(INTRINSICS[k][1], "SSRSRS", None, 64, None, None, staged)
            for k in (kind,)
            if k in INTRINSICS
        ],
        R.MultiLevelTiling("SSRSRS", None, 64, None, None, staged),
        R.ParallelizeVectorizeUnroll(16, 64, [0, 16, 64, 512], True),
        R.RandomComputeLocation(),
    ]


def _tensor_cores() -> R.ScheduleRule:
    """Products of half floats and of bytes by matrix units."""
    groups = [
        get_wmma_intrin_group("shared.dyn", "shared.dyn", in_dtype, out_dtype, trans_b)
        for in_dtype, out_dtype in (("float16", "float32"), ("float16", "float16"), ("int8", "int32"))
        for trans_b in (False, True)
    ]
    staged = "shared.dyn"
    return R.MultiLevelTilingTensorCore(
        groups,
        "SSSRRSRS",
        ["blockIdx.y", "blockIdx.x", "threadIdx.y"],
        4,
        [1, 2, 3, 4, 8, 16],
        R.ReuseType("must", [4], staged),
        R.ReuseType("must", [2], staged),
    )


def postprocs(kind: str) -> list[P.Postproc]:
    """The post-processors of "llvm", "cuda", "cuda-tensorcore", "hexagon" or one of INTRINSICS, in the order in which they are applied."""
    if _checked(kind):
        return [
            P.DisallowDynamicLoop(),
            P.RewriteCooperativeFetch(),
            P.RewriteUnboundBlock(256),
            P.RewriteParallelVectorizeUnroll(),
            P.RewriteReductionBlock(),
            P.VerifyGPUCode(),
            # It takes most of the time, and changes nothing that is checked.
            *([P.RewriteTensorize()] if kind == "cuda-tensorcore" else []),
        ]
    return [
        P.DisallowDynamicLoop(),
        P.RewriteParallelVectorizeUnroll(),
        P.RewriteReductionBlock(),
        *([P.RewriteTensorize(vectorize_init_loop=True)] if kind in INTRINSICS else []),
        *([P.VerifyCodeSize()] if kind != "hexagon" else []),
        P.RewriteLayout(),
        *([P.VerifyVTCMLimit(), P.DisallowAsyncStridedMemCopy()] if kind == "hexagon" else []),
    ]


def mutators(kind: str) -> dict[M.Mutator, float]:
    """The mutators of "llvm", "cuda", "cuda-tensorcore", "hexagon" or one of INTRINSICS, and how likely each is chosen."""
    if _checked(kind):
        return {M.MutateTileSize(): 0.9, M.MutateUnroll(): 0.08, M.MutateThreadBinding(): 0.02}
    return {
        M.MutateTileSize(): 0.9,
        M.MutateComputeLocation(): 0.05,
        M.MutateUnroll(): 0.03,
        M.MutateParallel(16): 0.02,
    }
