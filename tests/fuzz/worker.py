"""Checks in a process of their own, so that a crash or a hang of native code is a finding like any other."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

from tests.fuzz.check import Mismatch, check

PATIENCE = 120.0
"""Seconds after which a program counts as hanging."""


def serve(connection: Connection) -> None:
    """Checks what comes in until the other side closes."""
    while True:
        try:
            seed, steps = connection.recv()
        except EOFError:
            return
        try:
            connection.send((check(seed, steps), None))
        except Mismatch as failure:
            connection.send(([], (failure.step, failure.reason, str(failure.program))))


class Worker:
    """One process that checks programs, and is replaced when one takes it down."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.start()

    def start(self) -> None:
        self.connection, other = self.context.Pipe()
        self.process = self.context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def check(self, seed: int, steps: list[int]) -> list[str]:
        """As check.check, in the other process."""
        self.connection.send((seed, steps))
        try:
            if not self.connection.poll(PATIENCE):
                self.process.kill()
                self.process.join()
                raise Mismatch("running it", f"no result in {PATIENCE:.0f} s", "")
            done, failure = self.connection.recv()
        except EOFError:
            self.process.join()
            raise Mismatch("native code", f"the process died with code {self.process.exitcode}", "") from None
        finally:
            if not self.process.is_alive():
                self.start()
        if failure is not None:
            raise Mismatch(*failure)
        result: list[str] = done
        return result

    def stop(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
