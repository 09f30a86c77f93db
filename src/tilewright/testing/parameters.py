"""Parameters and fixtures shared by tests, and what says on which targets a test runs."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from tilewright.node import Node
from tilewright.support.environment import flag
from tilewright.target import Target

_groups = itertools.count()


def parameter(*values: Any, ids: Any = None, by_dict: dict[str, Any] | None = None) -> Any:
    """A fixture that has each of the values in turn: every test that takes it runs once for each.

    size = parameter(1, 16)     at the top of a test file makes `def test_f(size)` run twice. Tests that take
    several run for every combination. by_dict: name in the test's id -> value.
    """
    import pytest

    if by_dict is not None:
        if values or ids:
            raise ValueError("parameter takes values, or by_dict, but was given both")
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=list(values), ids=ids)
    def as_fixture(*holder: Any, request: Any) -> Any:  # holder: the instance, where a class has the parameter
        return request.param

    return as_fixture


def parameters(*value_sets: Any, ids: Any = None) -> list[Any]:
    """Fixtures whose values change together: `x, y = parameters((1, 2), (3, 4))` runs tests with (1, 2) and (3, 4).

    Every test that takes any of them runs once for each set. Needs `tilewright.testing.plugin`.
    """
    import pytest

    widths = {len(values) for values in value_sets}
    if len(widths) != 1:
        raise ValueError(f"parameters takes tuples of one length, but was given lengths {sorted(widths)}")
    group = f"parameters {next(_groups)}"
    out = []
    for column in zip(*value_sets, strict=True):

        def as_fixture(*holder: Any, request: Any) -> Any:
            return request.param

        as_fixture.parametrize_group = group  # type: ignore[attr-defined]
        as_fixture.parametrize_values = list(column)  # type: ignore[attr-defined]
        as_fixture.parametrize_ids = ids  # type: ignore[attr-defined]
        out.append(pytest.fixture(as_fixture))
    return out


def _key(args: dict[str, Any]) -> Any:
    return tuple(sorted((name, _hashable(name, value)) for name, value in args.items()))


def _hashable(name: str, value: Any) -> Any:
    if isinstance(value, Node):
        return ("node", id(value))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *[_hashable(name, v) for v in value])
    if isinstance(value, dict):
        return ("dict", *[(k, _hashable(name, v)) for k, v in value.items()])
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"a cached fixture takes arguments that can be hashed, but {name} is a {type(value).__name__};"
            " use @fixture without cache_return_value"
        ) from None
    return (type(value).__name__, value)


def _copied(value: Any) -> Any:
    """A copy that a test may change; programs are immutable and stay as they are."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (list, tuple, set)) and any([isinstance(v, Node) for v in value]):
        return type(value)([_copied(v) for v in value])
    return copy.deepcopy(value)


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A pytest fixture. cache_return_value: it is computed once for each combination of its arguments, and tests get copies.

    Arguments of cached fixtures must be hashable or Nodes; all instances of a class share the values of its fixtures.
    TVM_TEST_DISABLE_CACHE turns the cache off.
    """
    import pytest

    if func is None:
        return functools.partial(fixture, cache_return_value=cache_return_value)
    if not cache_return_value or flag("TVM_TEST_DISABLE_CACHE"):
        return pytest.fixture(func)
    if inspect.isgeneratorfunction(func):
        raise TypeError(f"fixture {func.__name__} yields its value; only a returned value can be cached")
    cache: dict[Any, Any] = {}

    @functools.wraps(func)
    def cached(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(func).bind(*args, **kwargs).arguments
        key = _key({name: type(value) if name == "self" else value for name, value in given.items()})
        if key not in cache:
            # Arguments are kept, so that the identity of a node in the key stays its own.
            cache[key] = (given, func(*args, **kwargs))
        return _copied(cache[key][1])

    return pytest.fixture(cached)


def _text(target: Any) -> str:
    return target if isinstance(target, str) else str(Target(target))


def parametrize(names: Any, values: Any, **options: Any) -> Any:
    """Runs a test once for each of `values` of its parameters `names`: pytest's mark of that name."""
    import pytest

    return pytest.mark.parametrize(names, values, **options)


def parametrize_targets(*targets: Any) -> Any:
    """Runs a test on these targets: it takes `target`, and `dev` if it likes. Without arguments: on all enabled ones.

    Tests of which `target` is a parameter run on the enabled targets even without this, under
    `tilewright.testing.plugin`. Targets that cannot be run here are skipped.
    """
    import pytest

    if len(targets) == 1 and callable(targets[0]):
        return targets[0]
    return pytest.mark.parametrize_targets(*[_text(t) for t in targets])


def exclude_targets(*targets: str) -> Callable[[Any], Any]:
    """The test is not run on these kinds of target."""
    import pytest

    mark: Any = pytest.mark.exclude_targets(*targets)
    decorated: Callable[[Any], Any] = mark
    return decorated


def known_failing_targets(*targets: str) -> Callable[[Any], Any]:
    """The test is expected to fail on these kinds of target."""
    import pytest

    mark: Any = pytest.mark.known_failing_targets(*targets)
    decorated: Callable[[Any], Any] = mark
    return decorated


def xfail_parameterizations(*ids: str, reason: str, strict: bool = False) -> Callable[[Any], Any]:
    """The cases of a parametrized test whose ids these are (the text in brackets) are expected to fail."""
    import pytest

    return _by_case(ids, pytest.mark.xfail(reason=reason, strict=strict))


def skip_parameterizations(*ids: str, reason: str) -> Callable[[Any], Any]:
    """The cases of a parametrized test whose ids these are (the text in brackets) are skipped."""
    import pytest

    return _by_case(ids, pytest.mark.skip(reason=reason))


def _by_case(ids: Iterable[str], applied: Any) -> Callable[[Any], Any]:
    import pytest

    mark: Any = pytest.mark.by_case(frozenset(ids), applied)
    decorated: Callable[[Any], Any] = mark
    return decorated
