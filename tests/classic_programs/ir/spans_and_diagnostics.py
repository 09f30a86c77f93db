import tvm
from tvm import relay

text = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {
  add(%x, undefined)
}
"""
try:
    tvm.relay.fromtext(text)
except tvm.error.DiagnosticError as error:
    assert "undefined" in str(error)
else:
    raise AssertionError
name = tvm.ir.SourceName("file.rly")
span = tvm.ir.Span(name, 1, 2, 3, 4)
assert span.source_name.name == "file.rly" and (span.line, span.end_line, span.column, span.end_column) == (1, 2, 3, 4)
v = tvm.tir.Var("x", "int32", span=span)
assert v.span.line == 1
assert relay.Var("y", span=span).span.source_name.name == "file.rly"
rendered = []
tvm.ir.diagnostics.override_renderer(lambda ctx: rendered.append([d.message for d in ctx.diagnostics]))
try:
    bad = relay.add(relay.var("a", shape=(2,)), relay.var("b", shape=(3,)))
    try:
        relay.transform.InferType()(tvm.IRModule.from_expr(bad))
    except tvm.error.DiagnosticError:
        pass
    else:
        raise AssertionError("types that do not fit were inferred")
    assert rendered and rendered[0]
    try:
        tvm.script.from_source("@T.prim_func\ndef f(A: T.Buffer((3,), 'float32')):\n    A[0] = nowhere\n")
        raise AssertionError("a name that is not defined was accepted")
    except tvm.error.DiagnosticError:
        assert any("nowhere" in message for message in rendered[-1])
finally:
    tvm.ir.diagnostics.override_renderer(None)
