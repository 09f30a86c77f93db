"""The pytest plugin: tests that take `target` run on every target, joint parameters, cases marked by their ids.

Load it in conftest.py: pytest_plugins = ["tilewright.testing.plugin"].
"""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.runtime import device
from tilewright.testing.features import feature_names, feature_of, target_names

_MARKS = (
    f"{' '.join(sorted({*feature_names(), 'c'}))}: needs that feature",
    "parametrize_targets(*targets): the targets that a test runs on",
    "exclude_targets(*kinds): kinds of target that a test is not run on",
    "known_failing_targets(*kinds): kinds of target on which a test is expected to fail",
    "by_case(ids, mark): a mark for single cases of a parametrized test",
)


def pytest_configure(config: pytest.Config) -> None:
    for text in _MARKS:
        names, _, meaning = text.rpartition(": ")
        for name in names.split() if "(" not in names else [names]:
            config.addinivalue_line("markers", f"{name}: {meaning}")


def _target_marks(metafunc: Any, target: str) -> list[Any]:
    feature = feature_of(target)
    marks = feature.marks() if feature is not None else []
    for mark in metafunc.definition.iter_markers("known_failing_targets"):
        if target.split()[0] in mark.args:
            marks.append(pytest.mark.xfail(reason=f"known to fail on {target.split()[0]}"))
    return marks


def _parametrize_targets(metafunc: Any) -> None:
    if "target" not in metafunc.fixturenames:
        return
    given = [m for m in metafunc.definition.iter_markers("parametrize_targets") if m.args]
    own = metafunc._arg2fixturedefs.get("target")
    other = [m for m in metafunc.definition.iter_markers("parametrize") if "target" in str(m.args[0])]
    if other or (own and own[-1].func.__module__ != __name__):
        return
    excluded = {kind for m in metafunc.definition.iter_markers("exclude_targets") for kind in m.args}
    names = [t for t in (given[0].args if given else target_names()) if t.split()[0] not in excluded]
    cases = [pytest.param(t, marks=_target_marks(metafunc, t), id=t) for t in names]
    metafunc.parametrize("target", cases, indirect=True, scope="session")


@pytest.fixture(scope="session")
def target(request: Any) -> Any:
    """The target of this run of the test, as text."""
    return request.param


@pytest.fixture
def dev(target: Any) -> Any:
    """The device of this run's target."""
    kind = str(target).split()[0]
    return device("cpu" if kind in ("llvm", "c") else kind, 0)


def _parametrize_joint(metafunc: Any) -> None:
    groups: dict[str, dict[str, Any]] = {}
    for name in metafunc.fixturenames:
        definitions = metafunc._arg2fixturedefs.get(name)
        func: Any = definitions[-1].func if definitions else None
        if hasattr(func, "parametrize_group"):
            groups.setdefault(func.parametrize_group, {})[name] = func
    for members in groups.values():
        sets = list(zip(*[f.parametrize_values for f in members.values()], strict=True))
        ids = next(iter(members.values())).parametrize_ids
        metafunc.parametrize(list(members), sets, indirect=True, ids=ids)


def pytest_generate_tests(metafunc: Any) -> None:
    _parametrize_targets(metafunc)
    _parametrize_joint(metafunc)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        for mark in list(item.iter_markers("by_case")):
            ids, applied = mark.args
            if hasattr(item, "callspec") and item.callspec.id in ids:
                item.add_marker(applied)
