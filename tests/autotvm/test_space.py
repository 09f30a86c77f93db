"""Spaces of configurations: knobs by their policies, indices, filters, JSON, fallbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.autotvm import templates
from tilewright import autotvm, te
from tilewright.autotvm.task.space import (
    AnnotateEntity,
    ConfigEntity,
    ConfigSpace,
    FallbackConfigEntity,
    ReorderEntity,
    SplitEntity,
    get_factors,
    get_pow2s,
)
from tilewright.support.errors import TVMError


def sizes(axis: Any, **kwargs: Any) -> list[list[int]]:
    cfg = ConfigSpace()
    cfg.define_split("tile", axis, **kwargs)
    return [e.size for e in cfg.space_map["tile"].entities]


def test_factors_and_powers() -> None:
    assert get_factors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert get_factors(1) == [1] and get_factors(13) == [1, 13]
    assert get_pow2s(32) == [1, 2, 4, 8, 16, 32] and get_pow2s(31) == [1, 2, 4, 8, 16]


def test_splits_by_policy() -> None:
    assert sizes(6, num_outputs=2) == [[-1, 1], [-1, 2], [-1, 3], [-1, 6]]
    assert sizes(6, num_outputs=2, policy="power2") == [[-1, 1], [-1, 2], [-1, 4]]
    assert sizes(6, num_outputs=2, policy="power2", no_tail=True) == [[-1, 1], [-1, 2]]
    assert sizes(6, num_outputs=2, policy="verbose") == [[-1, 1], [-1, 2], [-1, 3], [-1, 4], [-1, 6]]
    assert sizes(6, num_outputs=2, max_factor=2) == [[-1, 1], [-1, 2]]
    assert sizes(6, num_outputs=2, filter=lambda e: e.size[-1] > 2) == [[-1, 3], [-1, 6]]
    assert sizes(6, num_outputs=2, policy="candidate", candidate=[[3, 2], [-1, 6]]) == [[3, 2], [-1, 6]]
    assert sizes(6, num_outputs=1) == [[-1]]


def test_splits_into_three_change_the_innermost_extent_slowest() -> None:
    found = sizes(4, num_outputs=3)
    assert found == [[-1, 1, 1], [-1, 2, 1], [-1, 4, 1], [-1, 1, 2], [-1, 2, 2], [-1, 1, 4]]
    assert len(sizes(1024, num_outputs=4)) == 286  # ways to give ten factors of two to four axes


def test_knobs_without_choices_are_refused() -> None:
    with pytest.raises(TVMError, match="the knob 'tile' has nothing to choose from"):
        sizes(6, num_outputs=2, filter=lambda e: False)
    with pytest.raises(ValueError, match="the knob 'tile': 'thirds' is no policy of splits, which are factors, power2"):
        sizes(6, num_outputs=2, policy="thirds")
    with pytest.raises(ValueError, match="the extent of the axis is not known"):
        sizes(te.var("n"), num_outputs=2)


def orders(count: int, policy: str, **kwargs: Any) -> list[list[int]]:
    cfg = ConfigSpace()
    axes = [cfg.axis(i + 1) for i in range(count)]
    for name in ("spatial", "reduce"):
        if name in kwargs:
            kwargs[name] = [[axes[i] for i in chain] for chain in kwargs[name]]
    if "candidate" in kwargs:
        kwargs["candidate"] = [[axes[i] for i in order] for order in kwargs["candidate"]]
    cfg.define_reorder("order", axes, policy, **kwargs)
    return [e.perm for e in cfg.space_map["order"].entities]


def test_orders_by_policy() -> None:
    assert orders(3, "identity") == [[0, 1, 2]]
    assert len(orders(4, "all")) == 24
    assert orders(4, "interval_all", interval=(1, 3)) == [[0, 1, 2, 3], [0, 2, 1, 3]]
    assert orders(3, "candidate", candidate=[[2, 0, 1], [1, 2, 0]]) == [[2, 0, 1], [1, 2, 0]]
    # y = 0, 1 and x = 2, 3; the reduction is 4
    assert orders(5, "interleave_cuda", spatial=[[0, 1], [2, 3]], reduce=[[4]]) == [[0, 2, 4, 1, 3], [2, 0, 4, 1, 3]]
    found = orders(5, "interleave", spatial=[[0, 1], [2, 3]], reduce=[[4]])
    assert len(found) == 2 * 6 and all([set(p[:2]) == {0, 2} for p in found])
    with pytest.raises(RuntimeError, match="'none' is no policy of orders"):
        orders(2, "none")


def marks(count: int, policy: str, **kwargs: Any) -> list[list[Any]]:
    cfg = ConfigSpace()
    cfg.define_annotate("mark", [cfg.axis(i + 1) for i in range(count)], policy, **kwargs)
    return [e.anns for e in cfg.space_map["mark"].entities]


def test_marks_by_policy() -> None:
    assert marks(1, "try_unroll") == [["none"], ["unroll"]]
    assert marks(2, "try_vec") == [["none", "none"], ["none", "vec"], ["vec", "none"]]
    assert len(marks(2, "try_unroll_vec")) == 8
    assert marks(3, "bind_gpu") == [["fuse", "blockIdx.x", "threadIdx.x"]]
    assert marks(3, "bind_gpu_virtual") == [["blockIdx.x", "vthread", "threadIdx.x"]]
    assert marks(3, "locate_cache", num_anchor=2) == [[0, 1], [0, 2], [1, 2]]
    with pytest.raises(RuntimeError, match="bind_gpu needs 2 axes or more, but was given 1"):
        marks(1, "bind_gpu")


def space() -> ConfigSpace:
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(8), num_outputs=2)
    cfg.define_knob("unroll", [False, True, 4])
    cfg.define_annotate("mark", [cfg.axis(4)], "try_unroll")
    return cfg


def test_indices() -> None:
    cfg = space()
    assert cfg.dims == [4, 3, 2] and len(cfg) == cfg.range_length == 24
    assert cfg.point2knob(17) == [1, 1, 1] and cfg.knob2point([1, 1, 1]) == 17
    found = cfg.get(17)
    assert (found["tile"].size, found["unroll"].val, found["mark"].anns) == ([-1, 2], True, ["unroll"])
    assert [cfg.knob2point(cfg.point2knob(i)) for i in range(24)] == list(range(24))
    for wrong in (-1, 24):
        with pytest.raises(IndexError, match="24 configurations"):
            cfg.get(wrong)
    with pytest.raises(KeyError, match="has no knob 'tiles'; its knobs are tile, unroll, mark"):
        found["tiles"]


def test_walks_and_draws() -> None:
    cfg = space()
    for point in range(24):
        other = cfg.random_walk(point)
        assert sum([a != b for a, b in zip(cfg.point2knob(point), cfg.point2knob(other), strict=True)]) == 1
    assert cfg.get_rand_index(2, 5, to_exclude=[2, 4]) == 3
    with pytest.raises(ValueError, match="are excluded"):
        cfg.get_rand_index(2, 5, to_exclude=[2, 3, 4])
    assert sorted(cfg.sample_ints(24)) == list(range(24)) and len(set(cfg.sample_ints(5))) == 5
    assert cfg.get_next_index(3) == 4 and cfg.get_next_index(3, 5) == 8 and cfg.get_next_index(3, -2) == 1
    assert cfg.get_next_index(23) is None and cfg.get_next_index(3, 2, end=5) is None


def test_filters_leave_configurations_out() -> None:
    cfg = space()
    cfg.multi_filter(lambda e: e["tile"].size[-1] == 2 or e["unroll"].val == 4)
    valid = [i for i in range(24) if cfg.is_index_valid(i)]
    assert len(cfg) == len(valid) == 12 and cfg.range_length == 24
    assert cfg.subrange_length(0, 12) == 6
    assert cfg.get_next_index(1) == 5 and cfg.get_next_index(5, -1) == 1
    assert {cfg.get_rand_index() for _ in range(300)} == set(valid) == set(cfg.sample_ints(100))
    assert all([cfg.random_walk(point) in valid for point in valid])
    with pytest.raises(IndexError, match="left out by a filter"):
        cfg.get(0)
    cfg.multi_filter(lambda e: e["unroll"].val == 4)
    assert len(cfg) == 8 and cfg.subrange_length(0, 12) == 4
    cfg.define_knob("more", [0, 1])
    assert len(cfg) == 16


def test_json_gives_back_the_configuration() -> None:
    cfg = space()
    cfg.define_reorder("order", [cfg.axis(2), cfg.axis(3)], "all")
    given = cfg.get(41)
    data = given.to_json_dict()
    assert data["entity"] == [
        ["tile", "sp", [-1, 2]],
        ["unroll", "ot", True],
        ["mark", "an", ["unroll"]],
        ["order", "re", [1, 0]],
    ]
    read = ConfigEntity.from_json_dict(data)
    assert read.index == 41 and all([read[name] == given[name] for name in cfg.space_map])
    assert read.get_other_option() == {"unroll": True}
    assert np.array_equal(read.get_flatten_feature(), given.get_flatten_feature())
    with pytest.raises(TVMError, match="no configuration of a template"):
        ConfigEntity.from_json_dict({"index": 1, "entity": [["tile", "?", 1]]})


def test_errors_of_a_configuration() -> None:
    found = space().get(0)
    assert found.valid()
    found.raise_error("too large")
    assert not found.valid() and found.errors == ["too large"]


def test_entities_change_stages() -> None:
    a = te.placeholder((16, 12), name="a")
    b = te.compute((16, 12), lambda i, j: a[i, j] + 1.0, name="b")
    s = te.create_schedule(b.op)
    y, x = s[b].op.axis
    yo, yi = SplitEntity([-1, 4]).apply(s, b, y)
    xo, xm, xi = SplitEntity([3, 2, -1]).apply(s, b, x)
    assert ReorderEntity([0, 2, 1]).apply(s, b, [yo, yi, xo]) == [yo, xo, yi]
    AnnotateEntity(["unroll", "vec"]).apply(s, b, [xm, xi], axis_lens=[2, 2], max_unroll=16, vec_size=[2, 4])
    text = str(tvm.lower(s, [a, b]))
    assert "for i_outer, j_outer, i_inner in T.grid(4, 3, 4)" in text
    given, found = tvm.nd.array(np.ones((16, 12), "float32")), tvm.nd.empty((16, 12))
    tvm.build(s, [a, b], "llvm")(given, found)
    assert (found.numpy() == 2).all()
    cfg = space().get(0)
    AnnotateEntity(["unroll"]).apply(s, b, [xo], axis_lens=[64], max_unroll=16, cfg=cfg)
    assert cfg.errors == ["an axis of 64 is too long to be unrolled; at most 16"]


def test_fallbacks() -> None:
    cfg = FallbackConfigEntity()
    assert cfg.is_fallback and not ConfigSpace.is_fallback
    cfg.define_split("tile", cfg.axis(48), num_outputs=3)
    cfg.define_knob("unroll", [1, 2])
    assert cfg["tile"].size == [-1, 1, 1] and cfg["unroll"].val == 1
    cfg.fallback_split("tile", [-1, 4, 16])
    assert cfg["tile"].size == [1, 3, 16]
    cfg.fallback_split("tile", [-1, 8, 4])
    assert cfg["tile"].size == [2, 6, 4]
    with pytest.raises(RuntimeError, match="'tile' cannot be within"):
        cfg.fallback_split("tile", [-1, 0, 4])
    with pytest.raises(RuntimeError, match="'unroll' is no split"):
        cfg.fallback_split("unroll", [-1, 4])


def test_fallback_from_the_record_that_fits_best() -> None:
    def record(inner: int, unroll: int) -> Any:
        entities = {"tile": SplitEntity([-1, inner]), "unroll": autotvm.task.space.OtherOptionEntity(unroll)}
        return autotvm.MeasureInput(None, None, ConfigEntity(0, None, entities)), templates.result(1.0)

    cfg = FallbackConfigEntity()
    cfg.define_split("tile", cfg.axis(48), num_outputs=2)
    cfg.define_knob("unroll", [1, 2])
    cfg.fallback_with_reference_log([])
    assert cfg["tile"].size == [-1, 1]
    other = autotvm.MeasureInput(None, None, ConfigEntity(0, None, {"other": SplitEntity([-1, 2])}))
    cfg.fallback_with_reference_log([(other, templates.result(1.0)), record(32, 1), record(24, 2)])
    assert cfg["tile"].size == [2, 24] and cfg["unroll"].val == 2


def test_the_space_of_a_template_reads_as_known() -> None:
    assert str(templates.task(512).config_space) == (
        "ConfigSpace (len=100, range_length=100, space_map=\n"
        "   0 tile_y: Split(policy=factors, product=512, num_outputs=2) len=10\n"
        "   1 tile_x: Split(policy=factors, product=512, num_outputs=2) len=10\n)"
    )
    assert str(templates.task(512).config_space.get(65)) == "[('tile_y', [-1, 32]), ('tile_x', [-1, 64])],None,65"
