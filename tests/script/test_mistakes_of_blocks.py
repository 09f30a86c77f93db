"""What programs cannot say of blocks and their axes: one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

from tests.script.mistakes import check_mistake

CASES: list[tuple[str, str]] = [
    (
        """\
with T.blok("x"):
    pass""",
        """\
error: T has no attribute blok
 --> <string>:3:10
  |
3 |     with T.blok("x"):
  |          ^^^^^^
  = did you mean block?""",
    ),
    (
        """\
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8)""",
        """\
error: T.axis.spatial takes a domain and the value that the axis is bound to, but was given no value
 --> <string>:5:17
  |
5 |             v = T.axis.spatial(8)
  |                 ^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
for i in range(8):
    with T.block("b"):
        v = T.axis.remap("X", [i])""",
        """\
error: T.axis.remap knows the kinds S and R, but was given 'X'
 --> <string>:5:17
  |
5 |             v = T.axis.remap("X", [i])
  |                 ^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
with T.block("b"):
    v = T.axis.spacial(8, 0)""",
        """\
error: T.axis (Axis) has no attribute spacial
 --> <string>:4:13
  |
4 |         v = T.axis.spacial(8, 0)
  |             ^^^^^^^^^^^^^^
  = did you mean spatial?""",
    ),
    (
        """\
with T.block("b") as x:
    F[0] = 1.0""",
        """\
error: a block gives no value that could be named
 --> <string>:3:26
  |
3 |     with T.block("b") as x:
  |                          ^""",
    ),
    (
        """\
with T.block("b"):
    T.where(n)
    F[0] = 1.0""",
        """\
error: T.where takes a condition, but n is int32; compare it with a number
 --> <string>:4:9
  |
4 |         T.where(n)
  |         ^^^^^^^^^^""",
    ),
    (
        """\
with T.block("b"):
    with T.init():
        pass
    with T.init():
        pass""",
        """\
error: the block "b" has two inits
 --> <string>:6:14
  |
6 |         with T.init():
  |              ^^^^^^^^""",
    ),
    (
        """\
with T.init():
    pass""",
        """\
error: T.init stands directly in a block, but this is in the function f
 --> <string>:3:10
  |
3 |     with T.init():
  |          ^^^^^^^^""",
    ),
    (
        """\
with T.block("b"):
    T.func_attr({"a": 1})""",
        """\
error: T.func_attr stands directly in a function, but this is in the block "b"
 --> <string>:4:9
  |
4 |         T.func_attr({"a": 1})
  |         ^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
with T.block(3):
    pass""",
        """\
error: T.block takes a name, but was given int: 3; axes are bound by T.axis
 --> <string>:3:10
  |
3 |     with T.block(3):
  |          ^^^^^^^^^^""",
    ),
    (
        """\
T.reads(F[0])""",
        """\
error: T.reads stands directly in a block, but this is in the function f
 --> <string>:3:5
  |
3 |     T.reads(F[0])
  |     ^^^^^^^^^^^^^""",
    ),
    (
        """\
T.axis.spatial(4, 0)""",
        """\
error: T.axis.spatial stands directly in a block, but this is in the function f
 --> <string>:3:5
  |
3 |     T.axis.spatial(4, 0)
  |     ^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
with T.block("b"):
    v = T.axis.spatial((0, 1, 2), n)""",
        """\
error: T.axis.spatial takes an extent or a pair (begin, end), but was given 3 numbers
 --> <string>:4:13
  |
4 |         v = T.axis.spatial((0, 1, 2), n)
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[c[0].split("\n")[0] for c in CASES])
def test_mistake(body: str, expected: str) -> None:
    check_mistake(body, expected)
