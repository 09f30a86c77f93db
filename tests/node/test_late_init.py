"""`__init__` of a node type is compiled when it is first needed; what programs see of it is the same before and after."""

from __future__ import annotations

import inspect

import pytest

from tilewright.node import Node, base


class Pair(Node):
    first: int
    second: int = 2


class Triple(Pair):
    third: int = 3

    def _sum(self) -> int:
        return self.first + self.second + self.third


class Named(Pair):
    def __init__(self, name: str) -> None:
        super().__init__(len(name))


def test_the_signature_is_there_before_the_first_instance() -> None:
    assert list(inspect.signature(Triple).parameters) == ["first", "second", "third"]
    assert inspect.signature(Triple).parameters["third"].default == 3
    assert list(inspect.signature(Named).parameters) == ["name"]


def test_a_type_is_compiled_at_its_first_instance() -> None:
    class Single(Node):
        value: int

    assert Single in base._uncompiled
    with pytest.raises(TypeError, match=r"^Single\.__init__\(\) missing 1 required positional argument: 'value'$"):
        Single()  # type: ignore[call-arg]
    assert Single not in base._uncompiled
    assert Single(4).value == Single(value=4).value == 4


def test_bases_and_written_inits_work_together() -> None:
    assert Triple(1)._sum() == 6
    assert (Named("abc").first, Named("abc").second) == (3, 2)
    assert Pair(5).second == 2
