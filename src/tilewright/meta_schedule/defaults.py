"""The rules, post-processors and mutators of kinds of targets."""

from __future__ import annotations

from tilewright.meta_schedule import mutator as M
from tilewright.meta_schedule import postproc as P
from tilewright.meta_schedule import schedule_rule as R
from tilewright.target import Target

INTRINSICS = {
    "vnni": ("avx512vnni", "dot_16x4_vnni"),
    "avx512": ("avx512bw", "dot_16x4_avx512"),
    "dotprod": ("dotprod", "dot_4x4_sdot"),
}
"""Kinds of CPUs with instructions for products of bytes: the feature of the processor, and the tensor intrinsic."""

GPUS = ("cuda", "rocm", "metal", "opencl", "vulkan", "webgpu")


def kind_of(target: Target | None) -> str:
    """The kind by which defaults are chosen. Raises ValueError without a target, or for one that has no defaults."""
    if target is None:
        raise ValueError("the rules of a design space depend on the target: give TuneContext one")
    name = target.kind.name
    if name in GPUS:
        return "cuda"
    if name == "hexagon":
        return "hexagon"
    if name in ("llvm", "c", "interp"):
        features = target.features if name == "llvm" else ()
        return next((kind for kind, (feature, _) in INTRINSICS.items() if feature in features), "llvm")
    raise ValueError(f"there are no default rules for the target kind {name!r}: give the space generator rules")


def _checked(kind: str) -> bool:
    """Whether a kind is a GPU. Raises ValueError for an unknown one."""
    known = ("llvm", "cuda", "hexagon", *INTRINSICS)
    if kind not in known:
        raise ValueError(f"defaults are known for {', '.join(known)}, but {kind!r} was given")
    return kind == "cuda"


def schedule_rules(kind: str) -> list[R.ScheduleRule]:
    """The rules of "llvm", "cuda", "hexagon" or one of INTRINSICS, in the order in which they are applied."""
    if _checked(kind):
        return [
            R.ApplyCustomRule(),
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


def postprocs(kind: str) -> list[P.Postproc]:
    """The post-processors of "llvm", "cuda", "hexagon" or one of INTRINSICS, in the order in which they are applied."""
    if _checked(kind):
        return [
            P.DisallowDynamicLoop(),
            P.RewriteCooperativeFetch(),
            P.RewriteUnboundBlock(256),
            P.RewriteParallelVectorizeUnroll(),
            P.RewriteReductionBlock(),
            P.VerifyGPUCode(),
        ]
    return [
        P.DisallowDynamicLoop(),
        P.RewriteParallelVectorizeUnroll(),
        P.RewriteReductionBlock(),
        *([P.RewriteTensorize(vectorize_init_loop=True)] if kind in INTRINSICS else []),
        P.RewriteLayout(),
        *([P.VerifyVTCMLimit(), P.DisallowAsyncStridedMemCopy()] if kind == "hexagon" else []),
    ]


def mutators(kind: str) -> dict[M.Mutator, float]:
    """The mutators of "llvm", "cuda", "hexagon" or one of INTRINSICS, and how likely each is chosen."""
    if _checked(kind):
        return {M.MutateTileSize(): 0.9, M.MutateUnroll(): 0.08, M.MutateThreadBinding(): 0.02}
    return {
        M.MutateTileSize(): 0.9,
        M.MutateComputeLocation(): 0.05,
        M.MutateUnroll(): 0.03,
        M.MutateParallel(16): 0.02,
    }
