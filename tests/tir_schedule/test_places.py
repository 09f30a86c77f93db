"""Facts about blocks at their places are found once, as long as what they depend on stays as it is."""

from __future__ import annotations

from tests.tir_schedule.refusals import script
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.certain import surely
from tilewright.tir.schedule.facts.leaves import Leaf, leaves
from tilewright.tir.schedule.facts.regions import needed

COPY = script("""
for i, j in T.grid(4, 4):
    with T.block("b"):
        v, w = T.axis.remap("SS", [i, j])
        D[v * 4 + w] = A[v + w]
""")


def leaf_of(s: Schedule) -> Leaf:
    (leaf,) = leaves(s.get(s.get_block("root")).body)
    return leaf


def test_facts_are_found_once() -> None:
    s = Schedule(COPY())
    state, leaf = s.state, leaf_of(s)
    (read,), (write,) = leaf.block.reads, leaf.block.writes
    found = binding_of(state, leaf)
    assert binding_of(state, leaf) is found and found.covers
    inner = leaf.loops[1:]
    boxes = [f(state, r, leaf, loops) for f, r in ((surely, write), (needed, read)) for loops in (leaf.loops, inner)]
    count = len(state.forms.facts)
    again = [f(state, r, leaf, loops) for f, r in ((surely, write), (needed, read)) for loops in (leaf.loops, inner)]
    assert boxes == again and len(state.forms.facts) == count
    boxes[0].clear()
    assert surely(state, write, leaf, leaf.loops) == again[0], "a caller's list is its own"
    # How a loop runs changes nothing, its extent does.
    s.bind(s.get_loops(s.get_block("b"))[0], "blockIdx.x")
    assert binding_of(state, leaf_of(s)) is found
    s.split(s.get_loops(s.get_block("b"))[1], [2, None])
    assert binding_of(state, leaf_of(s)) is not found


def test_facts_are_forgotten_with_the_bounds_of_variables() -> None:
    s = Schedule(COPY())
    leaf = leaf_of(s)
    found = binding_of(s.state, leaf)
    s.state.forms.ranges[leaf.loops[0].loop_var] = (0, 1)
    assert binding_of(s.state, leaf) is not found
