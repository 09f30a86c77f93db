import tvm


def refused(source, part):
    try:
        tvm.script.from_source(source)
    except tvm.error.DiagnosticError as error:
        assert part in str(error), str(error)
        return
    raise AssertionError("parsed:\n" + source)


head = "# from tvm.script import tir as T\n@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n"
refused(head + "    A[0] = undefined_name\n", "undefined")
refused(head + "    for i in T.serial(4, 5, 6, 7):\n        A[i] = 1.0\n", "too many positional arguments")
refused(head + "    return\n    break\n", "returns a value or nothing")
refused(
    head + "    with T.block('x'):\n        vi = T.axis.spatial(4)\n        A[vi] = 1.0\n",
    "takes a domain and the value",
)
try:
    tvm.script.from_source("this is no Python")
except (SyntaxError, tvm.error.DiagnosticError):
    pass
else:
    raise AssertionError
