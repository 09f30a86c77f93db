"""The design spaces of kernels: how many, and of which steps."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.meta_schedule.kernels import KERNELS, check_draws, context, elementwise, gemm, norm, softmax
from tilewright import meta_schedule as ms
from tilewright import register_func, te, tir
from tilewright.meta_schedule import schedule_rule as R
from tilewright.meta_schedule.blocks import note
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import Schedule


def steps(sch: Schedule) -> Counter[str]:
    assert sch.trace is not None
    return Counter([inst.kind.method for inst in sch.trace.simplified().insts])


def designs(func: tir.PrimFunc, target: str = "llvm", space: Any = "post-order-apply") -> list[Schedule]:
    return context(func, target, space).generate_design_space()


def root_notes(sch: Schedule) -> dict[str, Any]:
    root = sch.get(sch.get_block("root"))
    return {k.removeprefix("meta_schedule."): note(root, k) for k in root.annotations}


def test_of_products() -> None:
    plain, outer, inner = designs(gemm())
    assert "cache_write" not in steps(plain)
    for sch, group in ((outer, 1), (inner, 3)):
        assert steps(sch)["cache_write"] == 1
        # The copy is in the innermost loop of its group of tiles: S0 S1 | S2 S3 | R ...
        assert len(sch.get_loops(sch.get_block("C_global"))) == group + 1 + 2
    for sch in (plain, outer, inner):
        assert steps(sch)["sample_perfect_tile"] == 3 and steps(sch)["sample_categorical"] == 1
        assert len(sch.get_loops(sch.get_block("C"))) == 4 + 4 + 2
        assert note(sch.get(sch.get_block("C")), "meta_schedule.tiling_structure") == "SSRSRS"
        found = root_notes(sch)
        assert found.pop("unroll_explicit") in (0, 16, 64, 512)
        assert found == {"parallel": 32, "vectorize": 64}


def test_a_consumer_is_computed_in_the_tiles() -> None:
    found = designs(gemm(relu=True))
    assert [steps(sch)["reverse_compute_at"] for sch in found] == [0, 1, 1]
    assert all([steps(sch)["cache_write"] == 0 for sch in found])


def test_of_convolutions() -> None:
    found = designs(KERNELS["conv"]())
    assert len(found) == 3
    for sch in found:
        assert len(sch.get_loops(sch.get_block("Y"))) == 4 * 4 + 3 * 2
        # Padding is a condition, and not inlined: where it is computed is drawn.
        assert steps(sch)["sample_compute_location"] == 1


def test_of_softmax() -> None:
    found = designs(softmax())
    # Either reduction may be factored in two ways.
    assert len(found) == 9
    assert sorted([steps(sch)["rfactor"] for sch in found]) == [0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert all([steps(sch)["sample_compute_location"] >= 1 for sch in found])


def test_elementwise_stages_become_one() -> None:
    (sch,) = designs(elementwise())
    assert steps(sch)["compute_inline"] == 2
    assert [b.name_hint for b in map(sch.get, sch.get_child_blocks(sch.get_block("root")))] == ["Y"]


def test_few_points_are_factored() -> None:
    found = designs(norm())
    assert [steps(sch)["rfactor"] for sch in found] == [0, 1, 1]
    assert not any([note(sch.get(sch.get_block("S")), "meta_schedule.random_compute_producer") for sch in found])


def test_products_on_gpus() -> None:
    (sch,) = designs(gemm(), "cuda")
    assert steps(sch)["bind"] == 3 and steps(sch)["cache_read"] == 2 and steps(sch)["cache_write"] == 1
    block = sch.get(sch.get_block("C"))
    assert note(block, "meta_schedule.thread_extent_low_inclusive") == 32
    assert note(block, "meta_schedule.thread_extent_high_inclusive") == 1024
    lengths = [
        note(sch.get(sch.get_block(name)), "meta_schedule.cooperative_fetch") for name in ("A_shared", "B_shared")
    ]
    assert set(lengths) <= {1, 2, 3, 4, 8, 16}


def test_reductions_across_threads() -> None:
    plain, across = designs(norm(), "cuda")
    axes = lambda sch: sorted([i.values[1] for i in sch.trace.insts if i.kind.method == "bind"])  # noqa: E731
    assert axes(plain) == ["blockIdx.x", "blockIdx.x", "threadIdx.x", "threadIdx.x"]
    assert axes(across).count("threadIdx.x") == 2


def test_wide_vectors() -> None:
    rule = R.MultiLevelTilingWideVector("SRSRS", 128, 64, None, R.ReuseType("no", [], ""))
    (sch,) = designs(gemm(), space=ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={}))
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_block("C"))]
    assert loops[-1].loop_var.name.startswith("j") and int(loops[-1].extent) == 4


def test_rules_of_users() -> None:
    @ms.derived_object
    class Halves(ms.schedule_rule.PyScheduleRule):
        def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
            self.seen = context.target

        def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
            if sch.get(block).name_hint != "Y":
                return [sch]
            new = sch.copy()
            new.split(new.get_loops(block)[0], [None, 2])
            return [sch, new]

        def clone(self) -> Halves:
            return Halves()

    rule = Halves()
    space = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})
    found = designs(elementwise(), space=space)
    assert [steps(sch)["split"] for sch in found] == [0, 1] and rule.seen is not None
    again = context(elementwise(), space=space).clone()
    assert len(again.generate_design_space()) == 2
    with pytest.raises(TypeError, match="derived_object: int must derive from a class that is made for it"):
        ms.derived_object(int)


def test_rules_that_blocks_name() -> None:
    @register_func("meta_schedule.cpu.halves_of_test", override=True)
    def halves(sch: Schedule, block: Any) -> list[Schedule]:
        sch.split(sch.get_loops(block)[0], [None, 2])
        return [sch]

    def named(name: str) -> list[Schedule]:
        sch = Schedule(gemm())
        sch.annotate(sch.get_block("C"), "schedule_rule", name)
        space = ms.space_generator.PostOrderApply(sch_rules=[R.ApplyCustomRule()], postprocs=[], mutator_probs={})
        return designs(sch.mod["main"], space=space)

    assert steps(named("halves_of_test")[0])["split"] == 1
    assert steps(named("None")[0])["split"] == 0
    with pytest.raises(
        TVMError, match="block C names the schedule rule 'missing', but none of meta_schedule.cpu.missing"
    ):
        named("missing")


def test_other_generators() -> None:
    def halves(sch: Schedule) -> None:
        sch.split(sch.get_loops(sch.get_block("Y"))[0], [None, 2])

    def both(sch: Schedule) -> list[Schedule]:
        new = sch.copy()
        halves(new)
        return [sch, new]

    assert len(designs(elementwise(), space=halves)) == 1 and len(designs(elementwise(), space=both)) == 2
    parts = [ms.SpaceGenerator.create(both), ms.SpaceGenerator.create(halves)]
    assert len(designs(elementwise(), space=ms.SpaceGenerator.create("union", parts))) == 3
    with pytest.raises(TypeError, match="returns None, a Schedule or several, but returned 3"):
        designs(elementwise(), space=lambda sch: 3)
    with pytest.raises(ValueError, match='is "post-order-apply", "union" or a function'):
        ms.SpaceGenerator.create("other")

    class Mine(ms.space_generator.PySpaceGenerator):
        def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
            pass

        def generate_design_space(self, mod: Any) -> list[Schedule]:
            return [Schedule(mod)]

    mine = context(elementwise(), space=Mine())
    assert len(mine.generate_design_space()) == 1 and len(mine.space_generator.postprocs) >= 3  # type: ignore[union-attr]


def test_defaults_by_target() -> None:
    names = lambda parts: [type(part).__name__ for part in parts]  # noqa: E731
    assert names(ms.ScheduleRule.create("llvm"))[-3:] == [
        "MultiLevelTiling",
        "ParallelizeVectorizeUnroll",
        "RandomComputeLocation",
    ]
    assert sum(ms.Mutator.create("llvm").values()) == pytest.approx(1) == sum(ms.Mutator.create("cuda").values())
    with pytest.raises(
        ValueError,
        match="defaults are known for llvm, cuda, cuda-tensorcore, hexagon, vnni, avx512, dotprod, but 'other' was given",
    ):
        ms.Postproc.create("other")
    with pytest.raises(ValueError, match="the rules of a design space depend on the target"):
        ms.TuneContext(gemm(), space_generator="post-order-apply")
    with pytest.raises(ValueError, match="the structure of tiles is a text of S and R"):
        R.MultiLevelTiling("SSX")
    with pytest.raises(ValueError, match='the req of a ReuseType must be "no", "may" or "must"'):
        R.MultiLevelTiling("SRS", reuse_write={"req": "some", "levels": [1], "scope": "global"})


def byte_product(m: int = 8, n: int = 32, k: int = 16) -> tir.PrimFunc:
    """Columns in panels of 16, of which 4 numbers stand together."""
    x, w = te.placeholder((m, k), "uint8", name="X"), te.placeholder((n // 16, k // 4, 16, 4), "int8", name="W")
    r = te.reduce_axis((0, k), name="k")

    def term(i: Any, j: Any) -> Any:
        return te.sum(x[i, r].astype("int32") * w[j // 16, r // 4, j % 16, r % 4].astype("int32"), axis=r)

    return te.create_prim_func([x, w, te.compute((m, n), term, name="C")])


def test_instructions() -> None:
    func = byte_product()
    space = ms.space_generator.PostOrderApply(sch_rules="vnni", postprocs="vnni", mutator_probs="vnni")
    traces = TraceSpace(context(func, space=space))
    assert len(traces.designs) == 3
    random = Random(1)
    for _ in range(4):
        text = str(traces.program(traces.draw(random)))
        assert text.count("vpdpbusd") == 1 and "auto_tensorize" not in text
    assert check_draws(func, traces, 3) == 3
    # What the instruction does not compute is tiled as usual.
    (first, *_) = designs(
        gemm(), space=ms.space_generator.PostOrderApply(sch_rules="vnni", postprocs=[], mutator_probs={})
    )
    assert steps(first)["blockize"] == 0 and steps(first)["sample_perfect_tile"] == 3
    rule = R.MultiLevelTilingWithIntrin("no_such_intrinsic", "SSRSRS")
    (sch,) = designs(func, space=ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={}))
    assert steps(sch)["split"] == 0
