"""What tests of relay leave as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.relay.op import cards


@pytest.fixture
def operators_go() -> Iterator[None]:
    """Operators of the test's own, "test.<name>", go with it: other tests list all that there are."""
    yield
    for key in [k for k in cards() if k.startswith("test.")]:
        cards().pop(key)  # type: ignore[attr-defined]
