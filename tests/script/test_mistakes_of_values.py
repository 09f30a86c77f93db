"""What programs cannot say of calls, numbers and arithmetic: one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

from tests.script.mistakes import check_mistake

CASES: list[tuple[str, str]] = [
    (
        """\
F[0] = T.exp()""",
        """\
error: T.exp: missing a required argument: 'x'
 --> <string>:3:12
  |
3 |     F[0] = T.exp()
  |            ^^^^^^^
  = it is called as T.exp(x)""",
    ),
    (
        """\
F[0] = T.exp(F[0], F[1])""",
        """\
error: T.exp: too many positional arguments
 --> <string>:3:12
  |
3 |     F[0] = T.exp(F[0], F[1])
  |            ^^^^^^^^^^^^^^^^^
  = it is called as T.exp(x)""",
    ),
    (
        """\
F[0] = T.float32("abc")""",
        """\
error: T.float32 takes a number, "inf", "-inf" or "nan", but was given 'abc'
 --> <string>:3:12
  |
3 |     F[0] = T.float32("abc")
  |            ^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
F[0] = T.if_then_else(n, 1.0, 2.0)""",
        """\
error: if_then_else takes a scalar bool condition, but was given int32: n
 --> <string>:3:12
  |
3 |     F[0] = T.if_then_else(n, 1.0, 2.0)
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
F[0] = T.Select(n < 3, 1.0, 2)""",
        """\
error: Select takes a bool and two values of one type (the bool scalar, or of as many lanes as they), but was given bool, float32, int32
 --> <string>:3:12
  |
3 |     F[0] = T.Select(n < 3, 1.0, 2)
  |            ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
F[0] = nn + 1""",
        """\
error: the name nn is not defined
 --> <string>:3:12
  |
3 |     F[0] = nn + 1
  |            ^^
  = did you mean n?""",
    ),
    (
        """\
F[0] = n // 0""",
        """\
error: floordiv by the constant zero
 --> <string>:3:12
  |
3 |     F[0] = n // 0
  |            ^^^^^^""",
    ),
    (
        """\
T.evaluate()""",
        """\
error: T.evaluate: missing a required argument: 'value'
 --> <string>:3:5
  |
3 |     T.evaluate()
  |     ^^^^^^^^^^^^
  = it is called as T.evaluate(value)""",
    ),
    (
        """\
x = T.handle("float32") + 1""",
        """\
error: no arithmetic on handles: v (handle), 1 (int32)
 --> <string>:3:9
  |
3 |     x = T.handle("float32") + 1
  |         ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
T.attr(F.data, 3, 4)""",
        """\
error: the key of T.attr must be a string, but was given int: 3
 --> <string>:3:5
  |
3 |     T.attr(F.data, 3, 4)
  |     ^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
F[0] = F[0] << 2""",
        """\
error: shift_left takes integers, but was given float32: F[0], T.float32(2)
 --> <string>:3:12
  |
3 |     F[0] = F[0] << 2
  |            ^^^^^^^^^""",
    ),
    (
        """\
F[0] = T.max(n, "a")""",
        """\
error: no arithmetic on handles: n (int32), "a" (handle)
 --> <string>:3:12
  |
3 |     F[0] = T.max(n, "a")
  |            ^^^^^^^^^^^^^""",
    ),
    (
        """\
F[0] = T.int8(300)""",
        """\
error: 300 does not fit in int8: the range is -128..127
 --> <string>:3:12
  |
3 |     F[0] = T.int8(300)
  |            ^^^^^^^^^^^""",
    ),
    (
        """\
x = T.LetStmt(n, var=3)""",
        """\
error: LetStmt.var must be a Var, but was given int: 3
 --> <string>:3:5
  |
3 |     x = T.LetStmt(n, var=3)
  |     ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[c[0].split("\n")[0] for c in CASES])
def test_mistake(body: str, expected: str) -> None:
    check_mistake(body, expected)
