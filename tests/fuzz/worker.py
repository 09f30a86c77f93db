"""Checks in processes of their own, so that a crash or a hang of native code is a finding like any other."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import resource
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait

from tests.fuzz.check import Mismatch, check
from tests.generators.case import Recipe

PATIENCE, STARTING = 120.0, 300.0
"""Seconds after which a program counts as hanging, and a process that is to check the first one."""
AHEAD = 8
"""Programs that a worker has before it, so that it never waits."""
RENEWED = 4000
"""Programs after which a process is replaced: code that was linked into it stays."""
MEMORY = 12 << 30
"""Bytes that a worker may ask for."""

READY = "ready"

Result = Counter[str] | Mismatch


def serve(connection: Connection) -> None:
    """Checks what comes in until the other side closes. An interrupt is for the parent, which closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    gc.freeze()
    connection.send(READY)
    while True:
        try:
            recipe = Recipe(*connection.recv())
        except EOFError:
            return
        try:
            counts, failure = check(recipe), None
        except Mismatch as found:
            counts, failure = Counter[str](), (found.step, found.reason, str(found.program or ""))
        with contextlib.suppress(BrokenPipeError):
            connection.send((counts, failure))


class Worker:
    """One process that checks programs, and is replaced when one takes it down."""

    target = staticmethod(serve)

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.waiting: deque[Recipe] = deque()
        self.start()

    def start(self) -> None:
        """A fresh process, given what the last one left undone."""
        self.connection, other = self.context.Pipe()
        self.process = self.context.Process(target=self.target, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.heard, self.done, self.ready = time.monotonic(), 0, False
        for recipe in self.waiting:
            self.connection.send(tuple(recipe))

    def give(self, recipe: Recipe) -> None:
        """One more program to check."""
        if not self.waiting:
            self.heard = time.monotonic()
        self.waiting.append(recipe)
        self.connection.send(tuple(recipe))

    def hangs(self) -> bool:
        """Whether it has been silent on a program for too long."""
        patience = PATIENCE if self.ready else STARTING
        return bool(self.waiting) and time.monotonic() - self.heard > patience and not self.connection.poll()

    def take(self) -> tuple[Recipe, Result] | None:
        """The oldest program's result, which is there, or the process has died or hangs; None when it only got ready."""
        result: Result
        try:
            if self.hangs():
                self.process.kill()
                self.process.join()
                result = Mismatch("running it", f"no result in {PATIENCE:.0f} s", "")
            else:
                message = self.connection.recv()
                if message == READY:
                    self.ready, self.heard = True, time.monotonic()
                    return None
                counts, failure = message
                result = Mismatch(*failure) if failure else counts
        except (EOFError, ConnectionResetError):
            self.process.join()
            result = Mismatch("running it", f"the process died with code {self.process.exitcode}", "")
        recipe = self.waiting.popleft()
        self.heard, self.done = time.monotonic(), self.done + 1
        if not self.process.is_alive() or self.done >= RENEWED and not self.waiting:
            self.stop()
            self.start()
        return recipe, result

    def check(self, recipe: Recipe) -> Counter[str]:
        """As check.check, in the other process."""
        self.give(recipe)
        taken = None
        while taken is None:
            while not self.connection.poll(1.0) and not self.hangs() and self.process.is_alive():
                pass
            taken = self.take()
        _, result = taken
        if isinstance(result, Mismatch):
            raise result
        return result

    def stop(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.join(0.5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Pool:
    """Several workers; what comes of a program does not depend on which of them checks it."""

    def __init__(self, count: int) -> None:
        self.workers = [Worker() for _ in range(count)]

    def map(self, recipes: Iterable[Recipe]) -> Iterator[tuple[Recipe, Result]]:
        """The results, as they come."""
        left = iter(recipes)
        while True:
            for worker in self.workers:
                while len(worker.waiting) < AHEAD and worker.done + len(worker.waiting) < RENEWED:
                    recipe = next(left, None)
                    if recipe is None:
                        break
                    worker.give(recipe)
            busy = {worker.connection: worker for worker in self.workers if worker.waiting}
            if not busy:
                return
            ready = [busy[c] for c in wait(list(busy), 1.0) if isinstance(c, Connection)]
            for worker in ready or [w for w in busy.values() if w.hangs()]:
                taken = worker.take()
                if taken is not None:
                    yield taken

    def stop(self) -> None:
        """Ends the processes."""
        for worker in self.workers:
            worker.stop()
