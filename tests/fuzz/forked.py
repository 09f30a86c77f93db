"""A check in a process of its own, forked from this one: a hang or the end of the process is a find like any other; the rest goes on."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

CPU_SECONDS = 60
"""Processor time that a check may take."""
PATIENCE = 1200.0
"""Seconds that it may take on a busy machine."""
MEMORY = 12 << 30
"""Bytes of address space that it may have."""


class Died(Exception):
    """How a process that gave no answer ended."""


def forked(check: Callable[[], T], cpu_seconds: int = CPU_SECONDS, patience: float = PATIENCE) -> T:
    """The answer of a check. Raises Died where there is none. The modules that it loads are loaded here too, so that later checks share
    them; no thread may run here."""
    gc.freeze()
    before = set(sys.modules)
    answer, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            # Its signal ends the process: nothing that hangs in native code would hear of a handler.
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            with os.fdopen(theirs, "wb") as out:
                pickle.dump((check(), [name for name in sys.modules if name not in before]), out)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(theirs)
    said, end = b"", time.monotonic() + patience
    try:
        while select.select([answer], [], [], max(end - time.monotonic(), 0))[0]:
            part = os.read(answer, 1 << 16)
            if not part:
                break
            said += part
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(answer)
        status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            raise Died(f"no result in {cpu_seconds} s of processor time")
        if number == signal.SIGKILL:
            raise Died(f"no result in {patience:.0f} s")
        raise Died(f"the process died of {signal.Signals(number).name}")
    if not said:
        raise Died("the process ended without a result")
    found: T
    found, loaded = pickle.loads(said)
    load(loaded)
    return found


def load(modules: Iterable[str]) -> None:
    """Imports modules, but what only looks like one."""
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
