"""What programs cannot say of loops and threads: one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

from tests.script.mistakes import check_mistake

CASES: list[tuple[str, str]] = [
    (
        """\
for i in range(8):
    break""",
        """\
error: a program has no statement of the kind break
 --> <string>:4:9
  |
4 |         break
  |         ^^^^^
  = use a while loop whose condition ends it""",
    ),
    (
        """\
for i in range(8):
    continue""",
        """\
error: a program has no statement of the kind continue
 --> <string>:4:9
  |
4 |         continue
  |         ^^^^^^^^
  = put the rest of the loop into an if""",
    ),
    (
        """\
if n and n > 1:
    F[0] = 1.0""",
        """\
error: `and` and `or` take conditions, but n is int32; compare it with a number
 --> <string>:3:8
  |
3 |     if n and n > 1:
  |        ^^^^^^^^^^^""",
    ),
    (
        """\
for i in T.thread_binding(4):
    pass""",
        """\
error: T.thread_binding takes the tag of the threads: thread="threadIdx.x"
 --> <string>:3:14
  |
3 |     for i in T.thread_binding(4):
  |              ^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
for i in T.thread_binding(4, thread="threadIdx.q"):
    pass""",
        """\
error: there are no threads 'threadIdx.q'; did you mean threadIdx.z or threadIdx.y or threadIdx.x?
 --> <string>:3:14
  |
3 |     for i in T.thread_binding(4, thread="threadIdx.q"):
  |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
for i in T.grid(1.5):
    pass""",
        """\
error: the bound of a loop must be a scalar integer, but is float32: T.float32(1.5)
 --> <string>:3:14
  |
3 |     for i in T.grid(1.5):
  |              ^^^^^^^^^^^""",
    ),
    (
        """\
for i in T.serial(8, step=2):
    pass""",
        """\
error: T.serial takes no argument step
 --> <string>:3:26
  |
3 |     for i in T.serial(8, step=2):
  |                          ^^^^^^
  = did you mean stop?""",
    ),
    (
        """\
T.launch_thread(n, 4)""",
        """\
error: T.launch_thread takes a tag such as "threadIdx.x" or a T.env_thread, but was given n
 --> <string>:3:5
  |
3 |     T.launch_thread(n, 4)
  |     ^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
for i in 8:
    pass""",
        """\
error: a loop runs over range(...), T.grid(...), T.serial(...) and their like, not over int
 --> <string>:3:14
  |
3 |     for i in 8:
  |              ^
  = write range(8)""",
    ),
    (
        """\
for i in n:
    pass""",
        """\
error: a loop runs over range(...), T.grid(...), T.serial(...) and their like, not over Var
 --> <string>:3:14
  |
3 |     for i in n:
  |              ^
  = write range(n)""",
    ),
    (
        """\
for i, i in T.grid(2, 2):
    F[i] = 1.0""",
        """\
error: two of the loops have the variable i
 --> <string>:3:9
  |
3 |     for i, i in T.grid(2, 2):
  |         ^^^^""",
    ),
    (
        """\
for i in range("a"):
    pass""",
        """\
error: the bound of a loop must be a scalar integer, but is handle: "a"
 --> <string>:3:14
  |
3 |     for i in range("a"):
  |              ^^^^^^^^^^""",
    ),
    (
        """\
for i in range(8):
    pass
else:
    pass""",
        """\
error: a loop of a program has no else
 --> <string>:6:9
  |
6 |         pass
  |         ^^^^""",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[c[0].split("\n")[0] for c in CASES])
def test_mistake(body: str, expected: str) -> None:
    check_mistake(body, expected)
