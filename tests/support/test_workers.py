"""Worker processes: jobs that fail in every way, parents that end, forks, threads; nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import jobs
from tilewright.support.errors import TVMError
from tilewright.support.job_process import FOLDERS
from tilewright.support.workers import Ending, Job, Options, Pool, Worker

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = Worker(Options(memory=256 << 20))
    yield found
    found.kill()


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether something is so within a time, be it for a moment."""
    end = time.monotonic() + seconds
    while not (so := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return so


@contextmanager
def interrupted(when: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C once something is so; ten seconds are enough for what follows."""
    thread = threading.Thread(target=lambda: until(when) and os.kill(os.getpid(), signal.SIGINT))
    thread.start()
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 10
    thread.join()


def test_an_interrupt_ends_the_jobs_of_a_pool(tmp_path: Path) -> None:
    with Pool(2) as pool:
        begun = [tmp_path / str(i) for i in range(4)]
        with pytest.raises(KeyboardInterrupt), interrupted(lambda: begun[0].exists() and begun[1].exists()):
            pool.run([Job(jobs.begin, (path,)) for path in begun])
        assert pool.pids == [] and not begun[2].exists()
        assert pool.run([Job(jobs.add, (1,))])[0].value == 2


def test_a_process_stays_for_the_next_job(worker: Worker) -> None:
    assert worker.run(Job(jobs.add, (1,), {"b": 4})).value == 5
    first = worker.run(Job(jobs.number)).value
    assert first == worker.pid != os.getpid()
    failed = worker.run(Job(jobs.fail, ("no",)))
    assert failed.ending is Ending.RAISED and failed.message == "ValueError: no"
    assert isinstance(failed.error, ValueError) and "in fail" in failed.error.__notes__[0]
    assert worker.run(Job(jobs.number)).value == first


def test_what_goes_wrong_ends_one_process(worker: Worker) -> None:
    worker.run(Job(jobs.add, (1,)))
    first = worker.pid
    begun = time.monotonic()
    late = worker.run(Job(jobs.sleep, (60,), timeout=0.3))
    assert late == (Ending.TIMEOUT, None, "it took longer than 0.3 s", None)
    assert time.monotonic() - begun < 10
    died = worker.run(Job(jobs.die, (signal.SIGSEGV,)))
    assert died.ending is Ending.DIED
    assert died.message == "its process was killed by signal 11 (SIGSEGV); its last words were:\na line before the end"
    assert worker.run(Job(jobs.leave, (3,))).message == "its process ended with status 3"
    assert worker.run(Job(jobs.add, (1,))).value == 2
    assert worker.pid != first and first is not None and not runs(first)


def test_memory_is_limited(worker: Worker) -> None:
    assert worker.run(Job(jobs.take, (64 << 20,))).value == 64 << 20
    pid = worker.pid
    assert worker.run(Job(jobs.take, (1 << 30,))) == (
        Ending.MEMORY,
        None,
        "it took more memory than its 256 MiB",
        None,
    )
    assert worker.run(Job(jobs.add, (1,))).value == 2 and worker.pid == pid


def test_jobs_that_cannot_be_sent(worker: Worker) -> None:
    with pytest.raises(
        TVMError, match="<lambda> cannot be sent to a worker process: .*a function that can be imported"
    ):
        worker.run(Job(lambda: 1))
    assert worker.run(Job(jobs.add, (1,))).value == 2
    pid = worker.pid
    with pytest.raises(TVMError, match="cannot pickle"):
        worker.run(Job(jobs.tell, (threading.Lock(),)))
    assert worker.run(Job(jobs.number)).value == pid
    unread = worker.run(Job(threading.Lock))
    assert unread.ending is Ending.RAISED and "cannot pickle" in unread.message


def test_initializers_and_uses() -> None:
    worker = Worker(Options(initializer=Job(jobs.tell, (7,)), uses=2))
    found = [(worker.run(Job(jobs.told)).value, worker.pid) for _ in range(3)]
    assert [value for value, _ in found] == [7, 7, 7]
    assert found[0][1] == found[1][1] != found[2][1]
    bad = Worker(Options(initializer=Job(jobs.fail, ("not ready",))))
    with pytest.raises(TVMError, match="a worker process cannot start: ValueError: not ready"):
        bad.run(Job(jobs.told))
    for w in (worker, bad):
        w.kill()


def test_a_pool_keeps_the_order_and_loses_one_job(tmp_path: Path) -> None:
    files = len(os.listdir("/proc/self/fd"))
    with Pool(2) as pool:
        work = [Job(jobs.add, (i,)) for i in range(6)]
        work[2] = Job(jobs.die, (signal.SIGABRT,))
        found = pool.run(work)
        assert [o.value for o in found] == [1, 2, None, 4, 5, 6]
        assert "SIGABRT" in found[2].message
        pids = pool.pids
        assert 1 <= len(pids) <= 2
        # From several threads, at more workers than there are.
        sums: list[int] = []
        threads = [
            threading.Thread(target=lambda i=i: sums.append(pool.submit(Job(jobs.add, (i,))).result().value))
            for i in range(8)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(sums) == list(range(1, 9))
        # kill -9 in the middle: the job fails, the next one runs.
        begun = tmp_path / "begun"
        slow = pool.submit(Job(jobs.begin, (begun,)))
        assert until(begun.exists)
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)
        assert "SIGKILL" in slow.result(20).message
        assert [o.value for o in pool.run([Job(jobs.add, (1,))] * 2)] == [2, 2]
        begun.unlink()
        stopped = pool.submit(Job(jobs.begin, (begun,)))
        assert until(begun.exists)
    assert stopped.result(5).ending is Ending.DIED
    assert not any(map(runs, pids)) and pool.pids == []
    assert len(os.listdir("/proc/self/fd")) == files


def test_what_a_job_started_and_wrote_goes_with_its_process(worker: Worker) -> None:
    other = worker.run(Job(jobs.start_another)).value
    path = Path(worker.run(Job(jobs.temporary)).value)
    assert runs(other) and path.exists() and FOLDERS in os.fspath(path)
    worker.kill()
    assert until(lambda: not runs(other)) and not path.parent.exists()


def test_a_forked_process_has_workers_of_its_own(worker: Worker) -> None:
    with Pool(1) as pool:
        worker.run(Job(jobs.add, (1,)))
        (first,) = pool.run([Job(jobs.number)])
        child = os.fork()
        if child == 0:
            try:
                (own,) = pool.run([Job(jobs.number)])
                right = own.value not in (first.value, None) and worker.run(Job(jobs.add, (1,))).value == 2
                pool.close()
                worker.kill()
                os._exit(0 if right else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert pool.run([Job(jobs.number)])[0].value == first.value
        assert worker.run(Job(jobs.add, (1,))).value == 2


PARENT = """
import sys
sys.path.insert(0, {root!r})
from tests.support import jobs
from tilewright.support.workers import Job, Options, Pool
def own(x):
    return 10 * x
if __name__ == "__main__":
    pool = Pool(2, Options(preload=("tests.support.jobs",)))
    assert [o.value for o in pool.run([Job(own, (i,)) for i in range(3)])] == [0, 10, 20]
    pool.run([Job(jobs.sleep, (0.2,))] * 2)
    print(*pool.pids, flush=True)
    {rest}
"""


def parent(tmp_path: Path, rest: str) -> tuple[subprocess.Popen[str], list[int]]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PARENT).format(root=os.fspath(ROOT), rest=rest))
    environment = {**os.environ, "TMPDIR": os.fspath(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2 and all(map(runs, pids)), process.stderr and process.stderr.read()
    return process, pids


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path: Path, number: int) -> None:
    """In the middle of jobs that would take a minute; with functions of the parent's own program."""
    process, pids = parent(tmp_path, "pool.run([Job(jobs.sleep, (60,))] * 2)")
    time.sleep(0.3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == (-9 if number == signal.SIGKILL else -2)
    assert until(lambda: not any(map(runs, pids)), 5)
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in errors and list(tmp_path.iterdir()) == [tmp_path / "program.py"]


def test_workers_end_with_a_program_that_ends(tmp_path: Path) -> None:
    process, pids = parent(tmp_path, "")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and errors == ""
    assert until(lambda: not any(map(runs, pids)), 5)
    assert list(tmp_path.iterdir()) == [tmp_path / "program.py"]


def test_idle_workers_let_interrupts_pass(worker: Worker) -> None:
    worker.run(Job(jobs.add, (1,)))
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGINT)
    assert worker.run(Job(jobs.add, (1,))).value == 2
