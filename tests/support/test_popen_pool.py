"""Classic pools of processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support import jobs
from tests.support.test_workers import runs, until
from tilewright.contrib.popen_pool import (
    MapResult,
    PopenPoolExecutor,
    PopenWorker,
    StatusKind,
    kill_child_processes,
)


def test_a_worker(tmp_path: Path) -> None:
    with open(tmp_path / "said", "wb") as said:
        worker = PopenWorker(jobs.tell, [5], maximum_uses=4, stderr=said)
        assert not worker.is_alive()
        worker.send(jobs.told)
        assert worker.recv() == 5 and worker.is_alive()
        worker.send(jobs.sleep, [30], timeout=0.2)
        with pytest.raises(TimeoutError, match=r"longer than 0.2 s"):
            worker.recv()
        worker.send(jobs.add, [1], {"b": 2}, timeout=20)
        assert worker.recv() == 3
        worker.send(jobs.fail, ["what"])
        with pytest.raises(ValueError, match="what"):
            worker.recv()
        worker.send(jobs.die, [signal.SIGTERM])
        with pytest.raises(ChildProcessError, match="SIGTERM"):
            worker.recv()
        worker.send(jobs.number)
        pid = worker.recv()
        worker.join(20)
        assert not worker.is_alive() and not runs(pid)
        worker.kill()
    assert "a line before the end" in (tmp_path / "said").read_text()


def test_a_pool() -> None:
    pool = PopenPoolExecutor(max_workers=2, timeout=20, maximum_process_uses=1)
    first, second = pool.submit(jobs.number), pool.submit(jobs.number)
    assert first.result() != second.result()
    with pytest.raises(ValueError, match="what"):
        pool.submit(jobs.fail, text="what").result()
    hasty = PopenPoolExecutor(1, timeout=0.3)
    found = list(hasty.map_with_error_catching(jobs.sleep, [0.0, 30, "soon"]))
    assert found[:2] == [MapResult(StatusKind.COMPLETE, 0.0), MapResult(StatusKind.TIMEOUT, None)]
    assert found[2].status is StatusKind.EXCEPTION and isinstance(found[2].value, TypeError)


def test_killed_children() -> None:
    worker = PopenWorker()
    worker.send(jobs.start_another)
    other = worker.recv()
    worker.send(jobs.number)
    pid = worker.recv()
    assert runs(other) and pid != os.getpid()
    kill_child_processes(pid)
    assert until(lambda: not runs(other)) and runs(pid)
    worker.kill()
