"""What programs cannot say of statements, names and suites: one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

from tests.script.mistakes import check_mistake

CASES: list[tuple[str, str]] = [
    (
        """\
import os""",
        """\
error: a program has no statement of the kind import
 --> <string>:3:5
  |
3 |     import os
  |     ^^^^^^^^^
  = write it outside of the program, which sees the names around it""",
    ),
    (
        """\
class X:
    pass""",
        """\
error: a program has no statement of the kind class
 --> <string>:3:5
  |
3 |     class X:
  |     ^^^^^^^^
  = write it outside of the program, which sees the names around it""",
    ),
    (
        """\
async def g():
    pass""",
        """\
error: a program has no statement of the kind async def
 --> <string>:3:5
  |
3 |     async def g():
  |     ^^^^^^^^^^^^^^
  = a @T.macro can be defined here""",
    ),
    (
        """\
del A""",
        """\
error: a program has no statement of the kind del
 --> <string>:3:5
  |
3 |     del A
  |     ^^^^^
  = a name ends with its suite""",
    ),
    (
        """\
global q""",
        """\
error: a program has no statement of the kind global
 --> <string>:3:5
  |
3 |     global q
  |     ^^^^^^^^
  = names of the file can be used, and only buffers change""",
    ),
    (
        """\
raise ValueError""",
        '''\
error: a program has no statement of the kind raise
 --> <string>:3:5
  |
3 |     raise ValueError
  |     ^^^^^^^^^^^^^^^^
  = write assert condition, "message"''',
    ),
    (
        """\
match n:
    case 1:
        pass""",
        """\
error: a program has no statement of the kind match
 --> <string>:3:5
  |
3 |     match n:
  |     ^^^^^^^^
  = write if and elif""",
    ),
    (
        """\
x = [A[i, 0] for i in range(n)]""",
        """\
error: a comprehension runs while the program is read, and this one failed: 'Var' object cannot be interpreted as an integer
 --> <string>:3:9
  |
3 |     x = [A[i, 0] for i in range(n)]
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = over a value of the program write a for loop""",
    ),
    (
        """\
x: T.int32 = 1.5""",
        """\
error: x is declared as int32, but its value is the float 1.5
 --> <string>:3:5
  |
3 |     x: T.int32 = 1.5
  |     ^""",
    ),
    (
        """\
x: T.foo = 1""",
        """\
error: T has no attribute foo
 --> <string>:3:8
  |
3 |     x: T.foo = 1
  |        ^^^^^
  = did you mean floor?""",
    ),
    (
        """\
for i in range(8):
    x = i + 1
F[x] = 1.0""",
        """\
error: the name x is not defined here, only in a suite that has ended
 --> <string>:5:7
  |
5 |     F[x] = 1.0
  |       ^
  = keep a value that is used later in a buffer""",
    ),
    (
        """\
(x := n)""",
        """\
error: a program has no expression with :=
 --> <string>:3:6
  |
3 |     (x := n)
  |      ^^^^^^""",
    ),
    (
        """\
yield n""",
        """\
error: a program has no expression with yield
 --> <string>:3:5
  |
3 |     yield n
  |     ^^^^^^^""",
    ),
    (
        """\
await n""",
        """\
error: a program has no expression with await
 --> <string>:3:5
  |
3 |     await n
  |     ^^^^^^^""",
    ),
    (
        """\
F[0]: T.float32 = 1""",
        """\
error: only a name can have an annotation
 --> <string>:3:5
  |
3 |     F[0]: T.float32 = 1
  |     ^^^^""",
    ),
    (
        """\
F[0] = A[0, 0] if n else 1.0""",
        """\
error: if_then_else takes a scalar bool condition, but was given int32: n
 --> <string>:3:12
  |
3 |     F[0] = A[0, 0] if n else 1.0
  |            ^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
T.block_attr({"a": 1})""",
        """\
error: T.block_attr stands directly in a block, but this is in the function f
 --> <string>:3:5
  |
3 |     T.block_attr({"a": 1})
  |     ^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
a, b = n""",
        """\
error: one value of type Var is assigned to 2 names
 --> <string>:3:5
  |
3 |     a, b = n
  |     ^^^^""",
    ),
    (
        """\
assert n""",
        """\
error: what is asserted must be a bool, but is int32
 --> <string>:3:12
  |
3 |     assert n
  |            ^
  = compare it with a number""",
    ),
    (
        """\
assert n > 1, n""",
        """\
error: the message of an assertion must be a string, but is Var
 --> <string>:3:19
  |
3 |     assert n > 1, n
  |                   ^""",
    ),
    (
        """\
T.grid(4)""",
        """\
error: a loop holds statements: write `for i in` before it and indent them below it
 --> <string>:3:5
  |
3 |     T.grid(4)
  |     ^^^^^^^^^""",
    ),
    (
        """\
lambda: 3""",
        """\
error: lambda: 3 gives a function, which does nothing as a statement
 --> <string>:3:5
  |
3 |     lambda: 3
  |     ^^^^^^^^^""",
    ),
    (
        """\
with T.decl_buffer((4,)), 3:
    pass""",
        """\
error: `with` takes a scope such as T.block(), but was given int
 --> <string>:3:31
  |
3 |     with T.decl_buffer((4,)), 3:
  |                               ^""",
    ),
    (
        """\
F[0] = None""",
        """\
error: the value stored to F must be an expression or a number, but was given NoneType: None
 --> <string>:3:5
  |
3 |     F[0] = None
  |     ^^^^""",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[c[0].split("\n")[0] for c in CASES])
def test_mistake(body: str, expected: str) -> None:
    check_mistake(body, expected)
