"""What programs cannot say of buffers: their making, loads and stores: one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

from tests.script.mistakes import check_mistake

CASES: list[tuple[str, str]] = [
    (
        """\
B = T.alloc_buffer((4,), "flaot32")""",
        """\
error: unknown data type 'flaot32'; expected one like 'float32', 'int8', 'uint1', 'bool', 'bfloat16', 'float8_e4m3fn' or 'handle', with 'x<lanes>' appended for vectors
 --> <string>:3:9
  |
3 |     B = T.alloc_buffer((4,), "flaot32")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = did you mean float32?""",  # noqa: E501
    ),
    (
        """\
B = T.alloc_buffer((-4,))""",
        """\
error: buffer B: a dimension cannot be negative, but -4 was given
 --> <string>:3:9
  |
3 |     B = T.alloc_buffer((-4,))
  |         ^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
B = T.alloc_buffer((1.5,))""",
        """\
error: buffer B: a dimension must be a scalar integer, but T.float32(1.5) is float32
 --> <string>:3:9
  |
3 |     B = T.alloc_buffer((1.5,))
  |         ^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
with T.block("b"):
    T.reads(F[0, 1])
    F[0] = 1.0""",
        """\
error: buffer F has 1 dimensions, but is indexed with 2: [0, 1]
 --> <string>:4:17
  |
4 |         T.reads(F[0, 1])
  |                 ^^^^^^^""",
    ),
    (
        """\
B = T.match_buffer(n, (4,))""",
        """\
error: T.match_buffer takes a handle, but n is int32; declare it as T.handle
 --> <string>:3:9
  |
3 |     B = T.match_buffer(n, (4,))
  |         ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
B = T.match_buffer(h)""",
        """\
error: T.match_buffer of a parameter takes the shape of the buffer
 --> <string>:3:9
  |
3 |     B = T.match_buffer(h)
  |         ^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
for i in range(8):
    B = T.match_buffer(h, (4,))""",
        """\
error: T.match_buffer stands directly in a block or a function, but this is in a loop
 --> <string>:4:13
  |
4 |         B = T.match_buffer(h, (4,))
  |             ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
F += 1""",
        """\
error: buffer F has elements, and is not a value itself; write F[i]
 --> <string>:3:5
  |
3 |     F += 1
  |     ^^^^^^""",
    ),
    (
        '''\
F[0] = "x"''',
        """\
error: a store to buffer F takes float32, but was given the string 'x'
 --> <string>:3:5
  |
3 |     F[0] = "x"
  |     ^^^^""",
    ),
    (
        """\
F[0] = F""",
        """\
error: buffer F has elements, and is not a value itself; write F[i]
 --> <string>:3:5
  |
3 |     F[0] = F
  |     ^^^^""",
    ),
    (
        """\
F[0:4] = F[0:8]""",
        """\
error: 4 lanes of buffer F are stored to, but the value has 8: F[0:8]
 --> <string>:3:5
  |
3 |     F[0:4] = F[0:8]
  |     ^^^^^^""",
    ),
    (
        """\
F[4:0:-1] = 1.0""",
        """\
error: a slice of buffer F that is loaded or stored needs a constant, positive length and step, but has length -4 and step -1
 --> <string>:3:5
  |
3 |     F[4:0:-1] = 1.0
  |     ^^^^^^^^^""",
    ),
    (
        """\
F[T.Ramp(0, 1, n)] = 1.0""",
        """\
error: Ramp.lanes must be a constant int, or vscale() times one, but was given n
 --> <string>:3:7
  |
3 |     F[T.Ramp(0, 1, n)] = 1.0
  |       ^^^^^^^^^^^^^^^""",
    ),
    (
        """\
F[0] = A.data""",
        """\
error: a store to buffer F takes float32, but was given handle: A; cast it with .astype("float32")
 --> <string>:3:5
  |
3 |     F[0] = A.data
  |     ^^^^""",
    ),
    (
        """\
n[0] = 3""",
        """\
error: n is not a buffer, but Var, so nothing can be stored to it
 --> <string>:3:5
  |
3 |     n[0] = 3
  |     ^
  = declare a buffer with T.match_buffer, T.alloc_buffer or T.Buffer""",
    ),
    (
        """\
T.realize(F[0:8], "shared")""",
        """\
error: T.realize names the scope 'shared', but buffer F is in 'global'
 --> <string>:3:5
  |
3 |     T.realize(F[0:8], "shared")
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        """\
B = T.Buffer((4,), "float32", dat=F.data)""",
        """\
error: T.Buffer takes no argument dat
 --> <string>:3:35
  |
3 |     B = T.Buffer((4,), "float32", dat=F.data)
  |                                   ^^^^^^^^^^
  = did you mean data?""",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[c[0].split("\n")[0] for c in CASES])
def test_mistake(body: str, expected: str) -> None:
    check_mistake(body, expected)
