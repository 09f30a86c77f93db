"""States: what steps make of loops, of te schedules and of programs, and how records write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tilewright as tvm
from tests.auto_scheduler.workloads import conv_relu, dag_of, matmul, matmul_add, row_sum, same_results
from tilewright import TVMError, auto_scheduler, te
from tilewright.auto_scheduler import steps
from tilewright.auto_scheduler.workload_registry import workload_key_to_tensors


def code_of(program: Any, dag: Any) -> str:
    """What the printed program of a state makes."""
    names: dict[str, Any] = {op.name: op.output(0) for op in dag.ops}
    s = te.create_schedule(dag.outputs)
    exec(program, {"te": te, "s": s, **names})
    return str(tvm.lower(s, dag.tensors))


def checked(dag: Any, state: Any) -> None:
    """The program, the record and the results of a state are those of its schedule."""
    schedule, args = dag.apply_steps_from_state(state)
    assert code_of(dag.print_python_code_from_state(state), dag) == str(tvm.lower(schedule, args))
    written = json.loads(json.dumps(state.state_object.to_json()))
    again = dag.state_of([steps.step_from_json(step) for step in written])
    assert again == state.state_object and str(again) == str(state)
    same_results(dag, state)


def test_a_computation_is_printed_and_counted() -> None:
    dag = dag_of(matmul_add, 16, 8, 4)
    assert str(dag) == (
        "A = PLACEHOLDER [16, 8]\nB = PLACEHOLDER [8, 4]\nmatmul(i, j) += A[i, k] * B[k, j]\nC = PLACEHOLDER [16, 4]\n"
        "out(i, j) = matmul[i, j] + C[i, j]\n"
    )
    assert dag.flop_ct == 16 * 4 * (2 * 8 + 1)
    assert dag.hash_key() == dag_of(matmul_add, 16, 8, 4).hash_key() != dag_of(matmul_add, 16, 8, 5).hash_key()
    assert json.loads(dag.workload_key())[1:] == [[16, 8], [8, 4], [16, 4], [16, 4]]


def test_keys_of_workloads() -> None:
    key = auto_scheduler.make_workload_key("tests.matmul", (4, 5, 6))
    assert key == '["tests.matmul", 4, 5, 6]'
    assert [list(t.shape) for t in workload_key_to_tensors(key)] == [[4, 5], [5, 6], [4, 6]]
    with pytest.raises(TVMError, match="registered already"):
        auto_scheduler.register_workload("tests.matmul", row_sum)
    with pytest.raises(TVMError, match="not registered"):
        auto_scheduler.ComputeDAG('["tests.nothing", 1]')


def test_loops_have_their_classic_names() -> None:
    dag = dag_of(matmul, 16, 16, 16)
    s = dag.get_init_state()
    c = s.stage_ops[2]
    i0, i1, i2 = s.split(c, s[c].iters[0], [4, 2])
    j0, j1 = s.split(c, s[c].iters[3], [8])
    s.reorder(c, [i0, j0, s[c].iters[5], i1, i2, j1])
    s.parallel(c, s.fuse(c, [i0, j0]))
    s.unroll(c, s[c].iters[2])
    s.vectorize(c, j1)
    s.pragma(c, s[c].iters[0], "auto_unroll_max_step$16")
    assert str(s) == (
        "Placeholder: A, B\nC auto_unroll: 16\nparallel i.0@j.0@ (0,4)\n  for k (0,16)\n    unroll i.1 (0,4)\n      for i.2 (0,2)\n"
        "        vectorize j.1 (0,8)\n          C = ...\n"
    )
    checked(dag, s)


def test_places_and_their_bounds() -> None:
    dag = dag_of(matmul_add, 16, 16, 16)
    s = dag.get_init_state()
    _, _, product, _, out = s.stage_ops
    outer, inner = s.split(out, s[out].iters[0], [4])
    s.compute_at(product, out, outer)
    assert [it.range for it in s[product].iters] == [None, None, None]
    # What was in a fused loop is in the loop that it became part of.
    s.fuse(out, [inner, s[out].iters[2]])
    bounded = dag.infer_bound_from_state(s)
    assert [it.extent for it in bounded[product].iters] == [4, 16, 16]
    assert "    for j (0,16)\n" in str(bounded)
    checked(dag, s)
    s.compute_root(product)
    assert not s.state_object.attached
    checked(dag, s)


def test_stages_that_steps_add() -> None:
    dag = dag_of(matmul, 8, 16, 8)
    s = dag.get_init_state()
    _, b, c = s.stage_ops
    local = s.cache_write(c, "local")
    assert [op.name for op in s.stage_ops] == ["A", "B", "C.local", "C"]
    assert [it.name for it in s[local].iters] == ["i_c", "j_c", "k"]
    copy = s.cache_read(b, "global", [local])
    assert [op.name for op in s.stage_ops] == ["A", "B", "B.global", "C.local", "C"]
    s.split(c, s[c].iters[0], [4])
    s.compute_at(local, c, s[c].iters[0])
    s.compute_at(copy, c, s[c].iters[0])
    checked(dag, s)


def test_partial_reductions() -> None:
    dag = dag_of(row_sum, 4, 32)
    s = dag.get_init_state()
    b = s.stage_ops[1]
    _, inner = s.split(b, s[b].iters[1], [8])
    partial = s.rfactor(b, inner, 1)
    assert [op.name for op in s.stage_ops] == ["A", "B.rf", "B"]
    assert len(s[partial].iters) == 3
    s.unroll(partial, s[partial].iters[1])
    checked(dag, s)


def test_splits_that_follow_others() -> None:
    dag = dag_of(matmul_add, 32, 16, 32)
    s = dag.get_init_state()
    _, _, product, _, out = s.stage_ops
    s.split(product, s[product].iters[0], [2, 4, 2])
    first = len(s.transform_steps) - 1
    s.split(product, s[product].iters[4], [4, 2, 2])
    made = s.follow_split(out, s[out].iters[0], first, 2)
    assert [it.extent for it in made] == [2, 2, 8]
    fused = s.fuse(out, [s[out].iters[2], s[out].iters[3]])
    made = s.follow_fused_split(out, fused, [first, first + 1], 1, True)
    assert [it.extent for it in made] == [32, 8]
    checked(dag, s)
    with pytest.raises(TVMError, match="which another could follow"):
        s.follow_split(out, s[out].iters[0], first, 4)


def test_what_is_inlined() -> None:
    dag = dag_of(conv_relu, 6, 2)
    s = dag.get_init_state()
    s.compute_inline(next(op for op in s.stage_ops if op.name == "pad"))
    s.compute_inline(next(op for op in s.stage_ops if op.name == "biased"))
    assert "pad = " not in str(s)
    checked(dag, s)


def test_states_are_values() -> None:
    dag = dag_of(matmul, 8, 8, 8)
    s = dag.get_init_state()
    other = s.copy()
    other.split(2, other[2].iters[0], [4])
    assert s != other and not s.transform_steps
    s.split(2, s[2].iters[0], [4])
    assert s == other


def test_what_is_refused() -> None:
    dag = dag_of(matmul, 8, 8, 8)
    s = dag.get_init_state()
    c = s.stage_ops[2]
    i, j, k = s[c].iters
    with pytest.raises(TVMError, match="no loop of stage A"):
        s.split(0, i, [2])
    with pytest.raises(TVMError, match="follow each other"):
        s.fuse(c, [i, k])
    with pytest.raises(TVMError, match="the order of all 3 loops"):
        s.reorder(c, [j, i])
    with pytest.raises(TVMError, match="loops are bound to"):
        s.bind(c, i, "threads")
    s.split(c, i, [None])
    with pytest.raises(TVMError, match="must be chosen"):
        dag.infer_bound_from_state(s)


@pytest.mark.parametrize(
    "bad", [None, [], ["XX", 1], ["SP", 1], ["SP", 1, 0, 8, 4, 1], ["PR", 1, 0, 5], ["CI", None], ["RE", 1, ["a"]]]
)
def test_records_that_are_no_steps(bad: Any) -> None:
    with pytest.raises(TVMError, match="step"):
        steps.step_from_json(bad)
