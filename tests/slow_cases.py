"""Which cases of a family of tests wait for `make test-slow`: `pytest --choose-slow` runs all of them and writes slow_cases.txt.

A family is one test function with all its parameters. Its cheapest cases run with `make test`, as far as they take SECONDS together;
of the others, those that take more than SMALL wait. A case that the list does not name runs.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

LIST = Path(__file__).with_suffix(".txt")
SECONDS = 0.5
"""CPU time that the quick cases of one family may take together."""
SMALL = 0.1
"""CPU time in seconds below which a case is always quick."""


def mark(items: list[pytest.Item]) -> None:
    """Gives the cases in the list the mark slow."""
    listed = set(LIST.read_text().splitlines())
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.slow)


def chosen(seconds: dict[str, float]) -> list[str]:
    """The cases that wait, of the CPU time that each took."""
    families = defaultdict(list)
    for case, time in seconds.items():
        families[case.partition("[")[0]].append((time, case))
    waiting = []
    for cases in families.values():
        # The cheapest of all runs whatever it takes: no family goes without a case.
        (used, _), *others = sorted(cases)
        for time, case in others:
            if time > SMALL and used + time > SECONDS:
                waiting.append(case)
            else:
                used += time
    return sorted(waiting)


class Choice:
    """Measures each test, with the processes that it started and waited for, and writes the list at the end of a session that passed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        item.stash[BEGAN] = _cpu()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        try:
            return (yield)
        finally:
            # Reports bring this from the workers to the process that writes.
            item.user_properties.append(("cpu", _cpu() - item.stash[BEGAN]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.seconds[report.nodeid] = dict(report.user_properties)["cpu"]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK and not hasattr(session.config, "workerinput"):
            LIST.write_text("".join(f"{case}\n" for case in chosen(self.seconds)))


BEGAN = pytest.StashKey[float]()


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
