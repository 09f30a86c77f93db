"""Databases: what is committed is found again, in memory, in files and by several of them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.kernels import context, elementwise, gemm
from tilewright import meta_schedule as ms
from tilewright.ir import IRModule
from tilewright.meta_schedule import database as D
from tilewright.meta_schedule.arg_info import ArgInfo, TensorInfo
from tilewright.meta_schedule.module_equality import ModuleEquality
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.node import structural_equal
from tilewright.script import from_source
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

LLVM = Target("llvm")


def module(func: PrimFunc) -> IRModule:
    return IRModule.from_expr(func)


def add(db: D.Database, func: PrimFunc, seconds: list[float] | None, seed: int = 1) -> Schedule:
    """Commits a drawn schedule with its times."""
    ctx = context(func)
    space = TraceSpace(ctx)
    sch = space.schedule(space.draw(Random(seed)))
    assert sch.trace is not None and ctx.mod is not None
    workload = db.commit_workload(ctx.mod)
    db.commit_tuning_record(D.TuningRecord(sch.trace, workload, seconds, LLVM, ArgInfo.from_entry_func(ctx.mod)))
    return sch


@pytest.mark.parametrize("kind", ["memory", "json"])
def test_the_fastest_is_found(kind: str, tmp_path: Path) -> None:
    db = D.Database.create(kind, **({"work_dir": str(tmp_path / "new")} if kind == "json" else {}))
    assert db.query(module(gemm()), LLVM) is None and len(db) == 0 and db
    add(db, gemm(), [3.0, 3.0], seed=1)
    fastest = add(db, gemm(), [1.0, 2.0], seed=2)
    add(db, gemm(), [1e10], seed=3)
    add(db, gemm(), None, seed=4)
    add(db, elementwise(), [0.5], seed=5)
    assert len(db) == 5 and db.has_workload(module(gemm())) and not db.has_workload(module(gemm(4, 4, 4)))
    top = db.get_top_k(db.commit_workload(module(gemm())), 9)
    assert [r.run_secs for r in top] == [[1.0, 2.0], [3.0, 3.0]]
    assert db.get_top_k(top[0].workload, 1) == top[:1]
    found = db.query(module(gemm()), LLVM)
    assert structural_equal(found.mod, fastest.mod)
    assert structural_equal(db.query_ir_module(module(gemm()), "llvm", "main"), fastest.mod)
    assert db.query(module(gemm()), LLVM, kind="record") is top[0]
    assert db.query(module(gemm()), "cuda") is None
    assert structural_equal(top[0].as_measure_candidate().sch.mod, fastest.mod)
    with pytest.raises(ValueError, match="asked for schedule, record, ir_module, but 'x' was given"):
        db.query(module(gemm()), LLVM, kind="x")


def test_files_are_read_again(tmp_path: Path) -> None:
    db = D.JSONDatabase(work_dir=str(tmp_path))
    sch = add(db, gemm(), [2.0])
    add(db, elementwise(), [1.0])
    again = D.JSONDatabase(str(tmp_path / "database_workload.json"), str(tmp_path / "database_tuning_record.json"))
    assert len(again) == 2 and again.refused == []
    assert structural_equal(again.query_ir_module(module(gemm()), LLVM, ""), sch.mod)
    (record,) = again.get_top_k(again.commit_workload(module(gemm())), 1)
    assert record.args_info == [TensorInfo("float32", s) for s in ([8, 6], [6, 12], [8, 12])]
    assert str(record.target) == str(LLVM)
    lines = [json.loads(line) for line in (tmp_path / "database_tuning_record.json").read_text().splitlines()]
    assert [line[0] for line in lines] == [0, 1] and lines[0][1][1:3] == [[2.0], LLVM.export()]
    assert len((tmp_path / "database_workload.json").read_text().splitlines()) == 2


def test_damaged_lines_are_refused_alone(tmp_path: Path) -> None:
    db = D.JSONDatabase(work_dir=str(tmp_path))
    add(db, gemm(), [2.0])
    workloads, records = tmp_path / "database_workload.json", tmp_path / "database_tuning_record.json"
    workloads.write_text('["1", "%%%"]\n' + workloads.read_text())
    good = json.loads(records.read_text())
    records.write_text(
        "".join([json.dumps(line) + "\n" for line in ([1, good[1]], [0, good[1]], [7], {"a": 1})]) + "[1,"
    )
    again = D.JSONDatabase(work_dir=str(tmp_path))
    assert len(again) == 1
    whys = [r.why for r in again.refused]
    assert whys[0].startswith("the module of a workload cannot be read")
    assert whys[1] == "its workload 0 is not in the file of workloads"
    assert whys[2] == "it is not [number of the workload, record]" and whys[3] == "it is a dict, not a list"
    add(again, elementwise(), [1.0])
    third = D.JSONDatabase(work_dir=str(tmp_path))
    assert len(third) == 2 and third.query(module(elementwise()), LLVM) is not None
    with pytest.raises(TVMError, match="of a database is missing"):
        D.JSONDatabase(work_dir=str(tmp_path / "other"), allow_missing=False)
    with pytest.raises(ValueError, match="needs work_dir, or the paths of both files"):
        D.JSONDatabase()


def test_several_databases() -> None:
    first, second = D.MemoryDatabase(), D.MemoryDatabase()
    slow, fast = add(first, gemm(), [2.0], seed=1), add(second, gemm(), [1.0], seed=2)
    mod = module(gemm())
    assert structural_equal(D.UnionDatabase(first, second).query(mod, LLVM).mod, fast.mod)
    assert structural_equal(D.OrderedUnionDatabase(D.MemoryDatabase(), first, second).query(mod, LLVM).mod, slow.mod)
    assert D.UnionDatabase(D.MemoryDatabase()).query(mod, LLVM) is None
    with pytest.raises(TVMError, match="UnionDatabase can only be queried: it has no workloads"):
        D.UnionDatabase(first).commit_workload(mod)


def test_schedules_by_a_function() -> None:
    def halves(sch: Schedule) -> bool:
        sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 2])
        return True

    db = D.Database.create(halves)
    sch = db.query(module(gemm()), LLVM)
    assert len(sch.get_loops(sch.get_block("C"))) == 4
    assert D.ScheduleFnDatabase(lambda sch: False).query(module(gemm()), LLVM) is None


def test_the_one_in_use() -> None:
    assert ms.Database.current() is None
    with D.MemoryDatabase() as outer:
        with D.MemoryDatabase() as inner:
            assert ms.Database.current() is inner
        assert ms.Database.current() is outer
    assert ms.Database.current() is None


def test_pruned() -> None:
    db, pruned = D.MemoryDatabase(), D.MemoryDatabase()
    for seconds in ([2.0], [1.0], [1e10]):
        add(db, gemm(), seconds)
    add(db, elementwise(), [3.0])
    db.dump_pruned(pruned)
    assert sorted([r.seconds for r in pruned.get_all_tuning_records()]) == [1.0, 3.0]


def test_databases_of_users() -> None:
    @ms.derived_object
    class Mine(D.PyDatabase):
        def __init__(self) -> None:
            self.inner = D.MemoryDatabase()

        def has_workload(self, mod: IRModule) -> bool:
            return self.inner.has_workload(mod)

        def commit_workload(self, mod: IRModule) -> D.Workload:
            return self.inner.commit_workload(mod)

        def commit_tuning_record(self, record: D.TuningRecord) -> None:
            self.inner.commit_tuning_record(record)

        def get_top_k(self, workload: D.Workload, top_k: int) -> list[D.TuningRecord]:
            return self.inner.get_top_k(workload, top_k)

        def get_all_tuning_records(self) -> list[D.TuningRecord]:
            return self.inner.get_all_tuning_records()

    db = Mine()
    sch = add(db, gemm(), [1.0])
    assert structural_equal(db.query(module(gemm()), LLVM).mod, sch.mod)


def with_constant(values: list[int], scale: int = 1) -> PrimFunc:
    source = f"""
@T.prim_func
def main(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
    k = T.allocate_const({values}, "int32", [2])
    K = T.Buffer((2,), "int32", data=k)
    for i in range(2):
        B[i] = A[i] * K[i] * {scale}
"""
    func: Any = from_source(source)
    assert isinstance(func, PrimFunc)
    return func


def test_when_modules_are_the_same() -> None:
    plain, loose = ModuleEquality(), ModuleEquality("ignore-ndarray")
    a, b, c = (module(f) for f in (with_constant([1, 2]), with_constant([3, 4]), with_constant([1, 2], 5)))
    assert plain.equal(a, module(with_constant([1, 2]))) and not plain.equal(a, b)
    assert loose.equal(a, b) and loose.hash(a) == loose.hash(b) and not loose.equal(a, c)
    anchor = ModuleEquality("anchor-block")
    fused, alone = module(gemm(relu=True)), module(gemm())
    assert anchor.equal(fused, alone) and anchor.hash(fused) == anchor.hash(alone) and not plain.equal(fused, alone)
    assert not anchor.equal(alone, module(gemm(4, 4, 4)))
    with pytest.raises(ValueError, match="module_equality is one of structural, ignore-ndarray, anchor-block"):
        D.MemoryDatabase("other")


def test_parameters() -> None:
    info = TensorInfo("int8", np.zeros((2, 3)).shape)
    assert ArgInfo.from_json(json.loads(json.dumps(info.as_json()))) == info
    with pytest.raises(TVMError, match=r'a parameter of a kernel is \["TENSOR", dtype, shape\]'):
        ArgInfo.from_json(["TENSOR"])
