"""Which cases of a family wait for `make test-slow`."""

from __future__ import annotations

from tests import slow_cases


def test_the_cheapest_cases_run_as_far_as_the_time_goes() -> None:
    seconds = {"f[a]": 0.5, "f[b]": 0.15, "f[c]": 0.25, "f[d]": 0.05, "g[a]": 3.0, "g[b]": 4.0, "h": 9.0}
    # 0.05 + 0.15 + 0.25 are within half a second; every family keeps a case, and what is alone runs.
    assert slow_cases.chosen(seconds) == ["f[a]", "g[b]"]


def test_what_takes_no_time_always_runs() -> None:
    assert slow_cases.chosen({f"f[{n}]": 0.09 for n in range(40)}) == []


def test_the_list_is_sorted_and_names_each_case_once() -> None:
    listed = slow_cases.LIST.read_text().splitlines()
    assert listed == sorted(set(listed))
