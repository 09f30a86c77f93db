"""Plans of kernels as spaces: candidates compute what the untuned kernel computes, come back from their text, and are used by builds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.backend.tuning_tasks import tuning_tasks
from tilewright.scheduling.database import PlanDatabase
from tilewright.scheduling.plan_space import PlanSpace
from tilewright.support.errors import TVMError
from tilewright.tuning import log
from tilewright.tuning.inputs import difference, random_inputs, signature_of
from tilewright.tuning.record import Record
from tilewright.tuning.task import Task

TARGET = "llvm -mcpu=haswell"


def network() -> tvm.IRModule:
    data, weight, matrix = (
        relay.var("data", shape=(1, 6, 14, 14)),
        relay.var("weight", shape=(10, 6, 3, 3)),
        relay.var("matrix", shape=(12, 40)),
    )
    conv = relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1)))
    pooled = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.avg_pool2d(conv, pool_size=(7, 7), strides=(7, 7))))
    return tvm.IRModule.from_expr(relay.Function([data, weight, matrix], relay.nn.dense(pooled, matrix)))


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    with tvm.transform.PassContext(opt_level=3):
        return tuning_tasks(network(), TARGET)


def run(program: tvm.IRModule) -> list[np.ndarray]:
    """The outputs of a kernel for random inputs, by the interpreter."""
    signature = signature_of(program)
    arrays = [tvm.nd.array(v) for v in random_inputs(signature)]
    tvm.build(program, target="interp")(*arrays)
    return [arrays[i].numpy() for i in signature.outputs]


def test_tasks_are_the_kernels_of_the_model(tasks: list[Task]) -> None:
    assert len({t.key for t in tasks}) == len(tasks) >= 4
    assert all([t.weight == 1 and t.moved > 0 for t in tasks])
    (conv,) = [t for t in tasks if "conv2d" in t.name]
    assert conv.flops >= 2 * 10 * 14 * 14 * 6 * 9


def test_candidates_compute_what_the_untuned_kernel_computes(tasks: list[Task]) -> None:
    random = Random(0)
    for task in tasks:
        untuned = task.space.untuned()
        expected, seen = run(untuned), set()
        candidate = task.space.draw(random)
        for step in range(6):
            other = task.space.draw(random) if step % 2 else task.space.neighbour(candidate, random)
            other = task.space.crossed(candidate, other, random) if step == 5 else other
            seen.add(task.space.key(other))
            program = task.space.program(other)
            assert not difference(signature_of(untuned), run(program), expected), (task.name, other)
            assert task.space.read(task.space.write(other)) == other
            candidate = other
        assert len(seen) > 1 or not candidate, task.name


def test_kernels_that_candidates_share_are_those_of_each(tasks: list[Task]) -> None:
    random, composed = Random(2), 0
    for task in tasks:
        assert isinstance(task.space, PlanSpace)
        for _ in range(5):
            candidate = task.space.draw(random)
            alone = PlanSpace(task.space.compose, task.target)
            assert tvm.ir.structural_equal(task.space.program(candidate), alone.program(candidate)), candidate
        composed += len(task.space._composed)
    # Five candidates and the first one of each: some decisions are those of computes, most are not.
    assert len(tasks) < composed < 6 * len(tasks)


def test_what_does_not_fit_is_refused(tasks: list[Task]) -> None:
    (conv,) = [t for t in tasks if "conv2d" in t.name]
    candidate = conv.space.draw(Random(0))
    with pytest.raises(TVMError, match=r"^x\.tile: there is no such decision$"):
        conv.space.program({**candidate, "x.tile": 3})
    with pytest.raises(TVMError, match=r"^a candidate is an object of decisions by name, but this is \[1\]$"):
        conv.space.read([1])


def test_a_build_uses_the_fastest_record(tasks: list[Task], tmp_path: Path) -> None:
    path, random = tmp_path / "log.json", Random(1)
    task = max(tasks, key=lambda t: t.flops)
    found = [task.space.draw(random) for _ in range(3)]
    target, times = task.target.text_for_all, (4e-5, 3e-5, 5e-5)
    log.append(
        path,
        [
            Record(task.key, task.name, target, c, (t,), untuned=4.1e-5).to_json()
            for c, t in zip(found, times, strict=True)
        ],
    )
    database = PlanDatabase(path)
    assert database.find(task.key, target) == found[1]
    assert [r.median for r in database.measured.values()] == [3e-5]

    noise = tmp_path / "noise.json"
    log.append(noise, [Record(task.key, task.name, target, found[0], (4.0e-5,), untuned=4.1e-5).to_json()])
    assert PlanDatabase(noise).find(task.key, target) == {}

    with tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(path)}):
        library = relay.build(network(), TARGET)
    (kernel,) = [k for k in library.texts.kernels.values() if k.digest.hex() == task.key]
    assert kernel.plan is not None and kernel.plan.values() == found[1] and not kernel.remarks.unfit
