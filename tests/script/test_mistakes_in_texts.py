"""What whole texts cannot say: modules, macros, signatures; one mistake each, with the whole text of its error."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright.support.errors import DiagnosticError

WHOLE: dict[str, tuple[str, str]] = {
    "ill-formed": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            A[v] = A[i]
""",
        """\
error: f is not well-formed: block b uses the loop variable i, which is defined outside of it; a block uses its own axes only: bind one to the loop
 --> <string>:4:9
  |
4 |         with T.block("b"):
  |         ^^^^^^^^^^^^^^^^^
 --> <string>:3:5
  |
3 |     for i in range(8):
  |     ^^^^^^^^^^^^^^^^^
 = where this is meant, write check_well_formed=False""",  # noqa: E501
    ),
    "module twice": (
        """\
@I.ir_module
class M:
    @T.prim_func
    def f(n: T.int32):
        pass
    @T.prim_func
    def f(n: T.int32):
        pass
""",
        """\
error: the module M has two functions named f
 --> <string>:7:5
  |
7 |     def f(n: T.int32):
  |     ^^^^^^^^^^^^^^^^^^""",
    ),
    "module junk": (
        """\
@I.ir_module
class M:
    x = 3 + y
    @T.prim_func
    def f(n: T.int32):
        pass
""",
        """\
error: the name y is not defined
 --> <string>:3:13
  |
3 |     x = 3 + y
  |             ^
  = the program has cls, M""",
    ),
    "class no dec": (
        """\
class M:
    pass
""",
        """\
error: the class M is not a module
 --> <string>:1:1
  |
1 | class M:
  | ^^^^^^^^
  = write @I.ir_module above it""",
    ),
    "module nested": (
        """\
@I.ir_module
class M:
    class N:
        pass
""",
        """\
error: the body of a module has no statement of the kind class
 --> <string>:3:5
  |
3 |     class N:
  |     ^^^^^^^^
  = write it outside of the program, which sees the names around it""",
    ),
    "module stmt": (
        """\
@I.ir_module
class M:
    for i in range(3):
        pass
""",
        """\
error: the body of a module has no loops
 --> <string>:3:5
  |
3 |     for i in range(3):
  |     ^^^^^^^^^^^^^^^^^^""",
    ),
    "module attrs": (
        """\
@I.ir_module
class M:
    I.module_attrs(3)
    @T.prim_func
    def f(n: T.int32):
        I.module_attrs({"a": 1})
""",
        """\
error: I.module_attrs takes a dictionary, but was given int: 3
 --> <string>:3:5
  |
3 |     I.module_attrs(3)
  |     ^^^^^^^^^^^^^^^^^""",
    ),
    "macro arity": (
        """\
@T.macro
def m(A, i):
    A[i] = 1.0
@T.prim_func
def f(A: T.Buffer((8,))):
    m(A)
""",
        """\
error: the macro m(A, i): missing a required argument: 'i'
 --> <string>:6:5
  |
6 |     m(A)
  |     ^^^^""",
    ),
    "macro undefined": (
        """\
@T.macro
def m(A, i):
    A[i] = q
@T.prim_func
def f(A: T.Buffer((8,))):
    m(A, 1)
""",
        """\
error: the name q is not defined
 --> <string>:3:12
  |
3 |     A[i] = q
  |            ^
  = the program has A, i
in a macro that is used here
 --> <string>:6:5
  |
6 |     m(A, 1)
  |     ^^^^^^^""",
    ),
    "func star": (
        """\
@T.prim_func
def f(*args):
    pass
""",
        """\
error: a program's parameters are plain names, without defaults or stars
 --> <string>:2:8
  |
2 | def f(*args):
  |        ^^^^""",
    ),
    "func default": (
        """\
@T.prim_func
def f(n: T.int32 = 3):
    pass
""",
        """\
error: a program's parameters are plain names, without defaults or stars
 --> <string>:2:20
  |
2 | def f(n: T.int32 = 3):
  |                    ^""",
    ),
    "bad return type": (
        """\
@T.prim_func
def f(n: T.int32) -> 3:
    pass
""",
        """\
error: 3 is not a type, but int
 --> <string>:2:22
  |
2 | def f(n: T.int32) -> 3:
  |                      ^
  = types are T.int32, T.handle, T.Buffer(shape, dtype) and their like""",
    ),
    "dup param": (
        """\
@T.prim_func
def f(n: T.int32, n: T.int32):
    pass
""",
        """\
error: two parameters are named n
 --> <string>:2:19
  |
2 | def f(n: T.int32, n: T.int32):
  |                   ^^^^^^^^^^""",
    ),
    "call fn kw": (
        """\
@I.ir_module
class M:
    @T.prim_func
    def g(n: T.int32):
        T.evaluate(n)
    @T.prim_func
    def f(n: T.int32):
        cls.g(n, m=3)
""",
        """\
error: cls.g takes no argument m
 --> <string>:8:18
  |
8 |         cls.g(n, m=3)
  |                  ^^^
  = it is called as cls.g(*args)""",
    ),
    "call fn arity": (
        """\
@I.ir_module
class M:
    @T.prim_func
    def g(n: T.int32):
        T.evaluate(n)
    @T.prim_func
    def f(n: T.int32):
        cls.g(n, n)
""",
        """\
error: g takes 1 argument, but was given 2
 --> <string>:8:9
  |
8 |         cls.g(n, n)
  |         ^^^^^^^^^^^""",
    ),
    "dim undefined": (
        """\
@T.prim_func
def f(A: T.Buffer((n, 4))):
    pass
""",
        """\
error: the name n is not defined
 --> <string>:2:20
  |
2 | def f(A: T.Buffer((n, 4))):
  |                    ^""",
    ),
    "sym unbound": (
        """\
@T.prim_func
def f(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (4,))
    A[n] = 1.0
""",
        """\
error: the variable n is used, but nothing gives it a value
 --> <string>:3:5
  |
3 |     n = T.int32()
  |     ^^^^^^^^^^^^^
  = let it be a dimension of a buffer of T.match_buffer, or make it a parameter""",
    ),
    "decor lambda": (
        """\
@T.prim_fun
def f(a: T.handle):
    pass
""",
        """\
error: T has no attribute prim_fun
 --> <string>:1:2
  |
1 | @T.prim_fun
  |  ^^^^^^^^^^
  = did you mean prim_func or PrimFunc?""",
    ),
    "indent": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
        A[0] = 1.0
      A[1] = 1.0
""",
        """\
error: this is not Python: unindent does not match any outer indentation level
 --> <string>:4:17
  |
4 |       A[1] = 1.0
  |                 ^""",
    ),
    "unterminated": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
    A[0] = T.float32(1.0
""",
        """\
error: this is not Python: '(' was never closed
 --> <string>:3:21
  |
3 |     A[0] = T.float32(1.0
  |                     ^""",
    ),
    "only import": (
        """\
from tilewright.script import tir as T
""",
        """\
error: the text holds neither a function nor a module
 --> <string>:1:1
  |
1 | from tilewright.script import tir as T
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "dup global": (
        """\
@T.prim_func
def f(A: T.Buffer((8,)), B: T.Buffer((8,))):
    with T.block("b"):
        T.reads(A[0:4], C[0])
        B[0] = A[0]
""",
        """\
error: the name C is not defined
 --> <string>:4:25
  |
4 |         T.reads(A[0:4], C[0])
  |                         ^
  = the program has A, B""",
    ),
    "axis value": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8.5, i)
            A[v] = 1.0
""",
        """\
error: the extent of T.axis.spatial must be an integer, but is float32: T.float32(8.5)
 --> <string>:5:17
  |
5 |             v = T.axis.spatial(8.5, i)
  |                 ^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "axis float": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, A[i])
            A[v] = 1.0
""",
        """\
error: the value of T.axis.spatial must be a scalar integer, but is float32: A[i]
 --> <string>:5:17
  |
5 |             v = T.axis.spatial(8, A[i])
  |                 ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "remap in func": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
    for i in range(8):
        v = T.axis.remap("S", [i])
""",
        """\
error: T.axis.remap stands directly in a block, but this is in a loop
 --> <string>:4:13
  |
4 |         v = T.axis.remap("S", [i])
  |             ^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "two blocks remap": (
        """\
@T.prim_func
def f(A: T.Buffer((8,))):
    for i in range(8):
        with T.block("b"):
            v = T.axis.remap("SS", i)
""",
        """\
error: T.axis.remap takes kinds and loops, as in T.axis.remap("SR", [i, j]), but was given 'SS', i
 --> <string>:5:17
  |
5 |             v = T.axis.remap("SS", i)
  |                 ^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "match region shape": (
        """\
@T.prim_func
def f(A: T.Buffer((8,8))):
    with T.block("b"):
        B = T.match_buffer(A[0:4, 0:4], (4, 4, 4))
        B[0, 0, 0] = 1.0
""",
        """\
error: match_buffer: B has 3 dimensions, more than the 2 of its region
 --> <string>:4:13
  |
4 |         B = T.match_buffer(A[0:4, 0:4], (4, 4, 4))
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "match dtype": (
        """\
@T.prim_func
def f(A: T.Buffer((8,8))):
    with T.block("b"):
        B = T.match_buffer(A[0:4, 0:4], (4, 4), "int8")
        B[0, 0] = T.int8(1)
""",
        """\
error: match_buffer: B is int8, but A, which it matches, is float32
 --> <string>:4:13
  |
4 |         B = T.match_buffer(A[0:4, 0:4], (4, 4), "int8")
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "buffer call": (
        """\
@T.prim_func
def f(A: T.Buffer((8,8))):
    A(0, 0)
""",
        """\
error: A is not a function, but Buffer
 --> <string>:3:5
  |
3 |     A(0, 0)
  |     ^^^^^^^
  = its elements are A[...]""",
    ),
    "while assign": (
        """\
@T.prim_func
def f(A: T.Buffer((8,)), n: T.int32):
    i = 0
    while i < n:
        A[i] = 1.0
        i += 1
""",
        """\
error: i stands for one value, given outside of this suite, and cannot be changed in it
 --> <string>:6:9
  |
6 |         i += 1
  |         ^
  = keep a value that changes in a buffer: x = T.alloc_buffer((1,), dtype)""",
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_mistake_in_a_whole_text(case: str) -> None:
    text, expected = WHOLE[case]
    with pytest.raises(DiagnosticError) as error:
        tvm.script.from_source(text)
    assert str(error.value) == expected
