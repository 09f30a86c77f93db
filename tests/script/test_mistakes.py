"""What programs cannot say: one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright.support.errors import DiagnosticError

HEAD = """@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), h: T.handle, n: T.int32, F: T.Buffer((8,), "float32")):
"""

# The body of the program, and the error; the place of each is in the file that the program stands in.
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
error: buffer F has elements, and is no value itself; write F[i]
 --> <string>:3:5
  |
3 |     F += 1
  |     ^^^^^^""",
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
F[0] = F""",
        """\
error: buffer F has elements, and is no value itself; write F[i]
 --> <string>:3:5
  |
3 |     F[0] = F
  |     ^^^^""",
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
F[T.Ramp(0, 1, n)] = 1.0""",
        """\
error: Ramp.lanes must be a constant int, but was given n
 --> <string>:3:7
  |
3 |     F[T.Ramp(0, 1, n)] = 1.0
  |       ^^^^^^^^^^^^^^^""",
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
n[0] = 3""",
        """\
error: n is no buffer, but Var, so nothing can be stored to it
 --> <string>:3:5
  |
3 |     n[0] = 3
  |     ^
  = declare a buffer with T.match_buffer, T.alloc_buffer or T.Buffer""",
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
F[0] = F[0] << 2""",
        """\
error: shift_left takes integers, but was given float32: F[0], T.float32(2.0)
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
F[0] = T.int32(1.5)""",
        """\
error: a store to buffer F takes float32, but was given int32: 1; cast it with .astype("float32")
 --> <string>:3:5
  |
3 |     F[0] = T.int32(1.5)
  |     ^^^^""",
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
with T.block("b"):
    v = T.axis.spatial((0, 1, 2), n)""",
        """\
error: T.axis.spatial takes an extent or a pair (begin, end), but was given 3 numbers
 --> <string>:4:13
  |
4 |         v = T.axis.spatial((0, 1, 2), n)
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
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
F[0] = None""",
        """\
error: the value stored to F must be an expression or a number, but was given NoneType: None
 --> <string>:3:5
  |
3 |     F[0] = None
  |     ^^^^""",
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
    text = HEAD + "".join([f"    {line}\n" for line in body.split("\n")])
    with pytest.raises(DiagnosticError) as error:
        tvm.script.from_source(text)
    assert str(error.value) == expected
