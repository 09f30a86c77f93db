"""Layouts of parameters that follow the loops of programs."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.auto_scheduler.test_sketches import MACHINE
from tilewright import auto_scheduler, te
from tilewright.auto_scheduler import LayoutRewriteOption
from tilewright.auto_scheduler.layout import layouts
from tilewright.auto_scheduler.sampling import Sampler
from tilewright.auto_scheduler.sketch_rules import Problem, generate
from tilewright.codegen import interp
from tilewright.tuning.packing import packed, parts_of_letters, text_of


def product_of(n: int = 8, l: int = 12, m: int = 16, free: bool = True) -> auto_scheduler.ComputeDAG:
    a, b = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    attrs = {"layout_free_placeholders": [b]} if free else {}
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs)
    return auto_scheduler.ComputeDAG([a, b, te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="D")])


def tiled(dag: auto_scheduler.ComputeDAG) -> Any:
    s = dag.get_init_state()
    c = s.stage_ops[2]
    j0, j1 = s.split(c, s[c].iters[1], [4])
    k0, k1 = s.split(c, s[c].iters[3], [3])
    i = s[c].iters[0]
    s.reorder(c, [j0, k0, i, k1, j1])
    s.vectorize(c, j1)
    return s


def run(schedule: Any, args: Any, inputs: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    out = np.zeros([int(d) for d in args[-1].shape], "float32")
    interp.run(tvm.lower(schedule, args), [*inputs, out], check_races=True)
    return out


def check(dag: auto_scheduler.ComputeDAG, state: Any) -> None:
    random = np.random.default_rng(2)
    a, b = [random.standard_normal([int(d) for d in t.shape]).astype("float32") for t in dag.tensors[:2]]
    wanted = np.maximum(a @ b, 0)
    np.testing.assert_allclose(run(*dag.apply_steps_from_state(state), [a, b]), wanted, rtol=1e-4, atol=1e-5)
    copied = dag.apply_steps_from_state(state, LayoutRewriteOption.INSERT_TRANSFORM_STAGE)
    np.testing.assert_allclose(run(*copied, [a, b]), wanted, rtol=1e-4, atol=1e-5)
    (layout,) = layouts(dag.ops, getattr(state, "state_object", state))
    given = dag.apply_steps_from_state(state, LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)
    np.testing.assert_allclose(run(*given, [a, packed(b, layout.old, layout.parts)]), wanted, rtol=1e-4, atol=1e-5)


def test_dimensions_follow_the_loops() -> None:
    dag = product_of()
    state = tiled(dag)
    changed = dag.rewrite_layout_from_state(state)
    # The loops over B: j.0, k.0, k.1, j.1.
    assert [[int(d) for d in t.shape] for t in changed.tensors] == [[8, 12], [4, 4, 3, 4], [8, 16]]
    check(dag, state)


@pytest.mark.parametrize("seed", range(3))
def test_drawn_programs_compute_the_same_in_other_layouts(seed: int) -> None:
    dag, random = product_of(), Random(seed)
    sketches = generate(Problem(dag, MACHINE))
    check(dag, Sampler(dag, MACHINE).sample(sketches[seed % len(sketches)], random))


def test_without_an_output_to_fuse_with() -> None:
    a, b = te.placeholder((8, 6), name="A"), te.placeholder((6, 8), name="B")
    k = te.reduce_axis((0, 6), name="k")
    attrs = {"layout_free_placeholders": [b]}
    c = te.compute((8, 8), lambda i, j: te.max(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs)
    dag = auto_scheduler.ComputeDAG([a, b, c])
    sketch = next(s for s in generate(Problem(dag, MACHINE)) if any([step.word == "CHW" for step in s.transform_steps]))
    state = Sampler(dag, MACHINE).sample(sketch, Random(1))
    random = np.random.default_rng(2)
    x, y = random.standard_normal((8, 6)).astype("float32"), random.standard_normal((6, 8)).astype("float32")
    found = run(*dag.apply_steps_from_state(state, LayoutRewriteOption.INSERT_TRANSFORM_STAGE), [x, y])
    np.testing.assert_allclose(found, (x[:, :, None] * y[None]).max(1), rtol=1e-5)


def test_what_stays_as_it_is() -> None:
    dag = product_of(free=False)
    assert [t.shape for t in dag.rewrite_layout_from_state(tiled(dag)).tensors] == [t.shape for t in dag.tensors]
    # Loops that do not divide an axis.
    dag = product_of(m=18)
    assert layouts(dag.ops, tiled(dag).state_object) == []
    # Elements that are read at something else than an axis.
    a = te.placeholder((9,), name="a")
    b = te.compute((8,), lambda i: a[i + 1], name="b", attrs={"layout_free_placeholders": [a]})
    dag = auto_scheduler.ComputeDAG([a, b])
    state = dag.get_init_state()
    state.split(b, state[b].iters[0], [2])
    assert layouts(dag.ops, state.state_object) == []


def test_parameters_that_are_packed_already_are_packed_anew() -> None:
    """Their dimensions are parts of axes: quotients and remainders."""
    a, b = te.placeholder((4, 6), name="A"), te.placeholder((2, 6, 8), name="B")
    k = te.reduce_axis((0, 6), name="k")
    attrs = {"layout_free_placeholders": [b]}
    c = te.compute((4, 16), lambda i, j: te.sum(a[i, k] * b[j // 8, k, j % 8], axis=k), name="C", attrs=attrs)
    dag = auto_scheduler.ComputeDAG([a, b, c])
    s = dag.get_init_state()
    j0, j1 = s.split(c, s[c].iters[1], [4])
    s.reorder(c, [j0, s[c].iters[3], s[c].iters[0], j1])
    (layout,) = layouts(dag.ops, s.state_object)
    assert layout.shape == (4, 6, 4)
    random = np.random.default_rng(2)
    x, y = random.standard_normal((4, 6)).astype("float32"), random.standard_normal((2, 6, 8)).astype("float32")
    wanted = x @ y.transpose(1, 0, 2).reshape(6, 16)
    given = dag.apply_steps_from_state(s, LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)
    np.testing.assert_allclose(run(*given, [x, packed(y, layout.old, layout.parts)]), wanted, rtol=1e-4, atol=1e-5)
    copied = dag.apply_steps_from_state(s, LayoutRewriteOption.INSERT_TRANSFORM_STAGE)
    np.testing.assert_allclose(run(*copied, [x, y]), wanted, rtol=1e-4, atol=1e-5)


def test_blocks_that_do_not_divide_each_other_are_packed() -> None:
    values = np.arange(24)
    whole, four, six = (parts_of_letters(t) for t in ("24a", "6a4a", "4a6a"))
    np.testing.assert_array_equal(packed(packed(values, whole, four), four, six), values.reshape(4, 6))
    assert text_of(four) == "6a4a" and text_of(four[::-1]) is None


def test_parameters_with_unread_elements_stay() -> None:
    a = te.placeholder((3, 8), name="a")
    k = te.reduce_axis((0, 4), name="k")
    attrs = {"layout_free_placeholders": [a]}
    b = te.compute((20,), lambda i: te.sum(a[i // 8, i % 8] * k, axis=k), name="b", attrs=attrs)
    dag = auto_scheduler.ComputeDAG([a, b])
    state = dag.get_init_state()
    state.split(b, state[b].iters[0], [2])
    assert layouts(dag.ops, state.state_object) == []
