"""Sketches and the programs that are drawn from them, each of which computes what the plain program does."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.auto_scheduler.workloads import conv_relu, dag_of, matmul, matmul_add, row_sum, same_results, softmax
from tilewright import TVMError, te
from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.sampling import Sampler, factorizations
from tilewright.auto_scheduler.sketch_facts import FREE
from tilewright.auto_scheduler.sketch_rules import Problem, generate
from tilewright.auto_scheduler.sketch_space import SketchSpace

MACHINE = HardwareParams(num_cores=4, vector_unit_bytes=32)
CASES: list[tuple[Any, tuple[int, ...]]] = [
    (matmul, (16, 12, 8)),
    (matmul_add, (8, 6, 16)),
    (conv_relu, (4, 2)),
    (row_sum, (3, 40)),
    (softmax, (4, 6)),
]


def space_of(dag: ComputeDAG) -> SketchSpace:
    return SketchSpace(Sampler(dag, MACHINE), generate(Problem(dag, MACHINE)))


def test_sketches_of_a_product() -> None:
    """In tiles; with a copy of the result after tiles of the first level, and of the second one; each also with a copy of the columns."""
    sketches = generate(Problem(dag_of(matmul, 64, 64, 64), MACHINE))
    words = sorted([[step.word for step in s.transform_steps] for s in sketches], key=len)
    tiled, fused = ["SP", "SP", "SP", "RE"], ["CHW", "SP", "SP", "SP", "RE", "FSP", "FSP", "RE", "CA"]
    assert words == [tiled, [*tiled, "CHR"], fused, fused, [*fused, "CHR"], [*fused, "CHR"]]
    assert not any([s.concrete for s in sketches])


def test_tiles_go_into_the_stages_that_read_them() -> None:
    for func, args in ((matmul_add, (64, 64, 64)), (conv_relu, (16, 8))):
        sketches = generate(Problem(dag_of(func, *args), MACHINE))
        sketches = [s for s in sketches if all([step.word != "CHR" for step in s.transform_steps])]
        attached = [s.attached for s in sketches]
        assert len(sketches) == 3 and sum([1 for a in attached if a]) == 2
        assert not any([step.word == "CHW" for s in sketches for step in s.transform_steps])


def test_columns_are_copied_in_tiles() -> None:
    """The copy is made where a level of tiles ends: outside of the reduction, or in its outer loop."""
    dag, random = dag_of(matmul_add, 16, 16, 16), Random(3)
    sketches = [s for s in generate(Problem(dag, MACHINE)) if s.transform_steps[-1].word == "CHR"]
    assert [s.stages[2].op.name for s in sketches] == ["B.global"] * 3
    alone = next(s for s in sketches if not s.attached)
    fused = next(s for s in sketches if s.attached)
    places = set()
    for _ in range(16):
        state = Sampler(dag, MACHINE).sample(alone, random)
        assert state.stages[state.attached[2][0]].op.name == "matmul"
        places.add(sum([state.stages[3].iters[i].iter_kind == 1 for i in range(state.attached[2][1] + 1)]))
    assert places == {0, 1}
    # Where the product is computed in tiles of its reader, also around these.
    readers = set()
    for _ in range(16):
        state = Sampler(dag, MACHINE).sample(fused, random)
        readers.add(state.stages[state.attached[2][0]].op.name)
        same_results(dag, state)
    assert len(readers) == 2
    # Rows are read one element after the other, and layouts that are free need no copy.
    a, b = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    for body, attrs in ((lambda i, j: a[i, k] * b[j, k], {}), (lambda i, j: a[i, k] * b[k, j], {FREE: [b]})):
        c = te.compute((16, 16), lambda i, j, f=body: te.sum(f(i, j), axis=k), name="C", attrs=attrs)
        found = generate(Problem(ComputeDAG([a, b, c]), MACHINE))
        assert len(found) == 3


def test_long_reductions_become_partial_ones() -> None:
    sketches = generate(Problem(dag_of(row_sum, 4, 512), MACHINE))
    assert sorted([[step.word for step in s.transform_steps] for s in sketches], key=len) == [
        [],
        ["SP", "RF"],
        ["SP", "RF", "RE"],
    ]
    assert len(generate(Problem(dag_of(row_sum, 512, 4), MACHINE))) == 1


@pytest.mark.parametrize(("func", "args"), CASES)
def test_drawn_programs_compute_the_same(func: Any, args: tuple[int, ...]) -> None:
    dag, random = dag_of(func, *args), Random(5)
    for sketch in generate(Problem(dag, MACHINE)):
        same_results(dag, Sampler(dag, MACHINE).sample(sketch, random))


@pytest.mark.parametrize(("func", "args"), CASES)
def test_changed_programs_compute_the_same(func: Any, args: tuple[int, ...]) -> None:
    dag, random = dag_of(func, *args), Random(6)
    space = space_of(dag)
    first, second = space.draw(random), space.draw(random)
    for i in range(8):
        first = space.crossed(first, second, random) if i % 4 == 3 else space.neighbour(first, random)
        again = space.read(json.loads(json.dumps(space.write(first))))
        assert again == first and space.key(again) == space.key(first)
        if i % 2:
            same_results(dag, first)


def test_changes_keep_the_sketch() -> None:
    dag, random = dag_of(matmul_add, 32, 32, 32), Random(7)
    space = space_of(dag)
    for _ in range(4):
        first, second = space.draw(random), space.draw(random)
        assert space.neighbour(first, random) != first
        for made in (space.neighbour(first, random), space.crossed(first, second, random)):
            before = [(s.word, s.stage_id) for s in first.transform_steps if s.word in ("SP", "FSP", "RE", "CHW")]
            assert [
                (s.word, s.stage_id) for s in made.transform_steps if s.word in ("SP", "FSP", "RE", "CHW")
            ] == before


def test_tiles_of_a_single_level_are_not_resized() -> None:
    """Of the structure SRS the loop of the sum is split into one."""
    dag, random = dag_of(matmul, 4, 8, 6), Random(0)
    space = SketchSpace(Sampler(dag, MACHINE), generate(Problem(dag, MACHINE, "SRS")))
    candidate = space.draw(random)
    for _ in range(20):
        candidate = space.neighbour(candidate, random)
        same_results(dag, candidate)


def test_lengths_are_divisors() -> None:
    found = factorizations(24, 2, 4)
    assert len(set(found)) == len(found) and (6, 4) in found and (24, 1) in found and (1, 6) not in found
    assert all([24 % (a * b) == 0 and b <= 4 for a, b in found])


def test_what_is_no_candidate() -> None:
    space = space_of(dag_of(matmul, 8, 8, 8))
    for bad in ({}, [["SP"]], [["SP", 9, 0, 8, [2], 1]]):
        with pytest.raises(TVMError):
            space.read(bad)
