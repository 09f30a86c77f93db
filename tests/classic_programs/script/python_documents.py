from tvm.runtime import ObjectPath
from tvm.script.printer import doc
from tvm.script.printer.doc_printer import to_python_script

a, b, c = doc.IdDoc("a"), doc.IdDoc("b"), doc.IdDoc("c")
K = doc.OperationKind


def op(kind, *operands):
    return doc.OperationDoc(kind, operands)


def text(node, **options):
    return to_python_script(node, **options).strip()


# Expressions, with as many parentheses as precedence needs.
for value, shown in ((1, "1"), (-2, "-2"), (0.5, "0.5"), ("a\nb", '"a\\nb"'), (True, "True"), (None, "None")):
    assert text(doc.LiteralDoc(value)) == shown
assert text(a.attr("x").call(b, key=c)) == "a.x(b, key=c)"
assert text(a[b, doc.SliceDoc(doc.LiteralDoc(1), None, c)]) == "a[b, 1::c]"
assert text(doc.IndexDoc(a, [])) == "a[()]"
assert text(op(K.Mult, op(K.Add, a, b), c)) == "(a + b) * c"
assert text(op(K.Sub, a, op(K.Sub, b, c))) == "a - (b - c)"
assert text(op(K.Pow, op(K.USub, a), op(K.Pow, b, c))) == "(-a) ** b ** c"
half, one = doc.LiteralDoc(-0.5), doc.LiteralDoc(1)
assert text(op(K.Pow, half, b)) == "(-0.5) ** b" and text(op(K.Mult, half, half)) == "-0.5 * -0.5"
assert text(half.attr("real")) == "(-0.5).real" and text(doc.LiteralDoc(-0.0).attr("real")) == "(-0.0).real"
assert text(one.attr("real")) == "(1).real" and text(doc.LiteralDoc(1.5).attr("real")) == "1.5.real"
assert text(op(K.Pow, one, one)) == "1 ** 1" and text(doc.LiteralDoc(True).attr("real")) == "True.real"
assert text(op(K.Not, op(K.And, a, op(K.Lt, b, c)))) == "not (a and b < c)"
assert text(op(K.IfThenElse, a, b, c)) == "b if a else c"
assert text(doc.LambdaDoc([a, b], op(K.FloorDiv, a, b))) == "lambda a, b: a // b"
assert (
    text(doc.TupleDoc([a])) == "(a,)"
    and text(doc.ListDoc([a, b])) == "[a, b]"
    and text(doc.DictDoc({a: b})) == "{a: b}"
)
try:
    op(K.Add, a)
except ValueError as error:
    assert "Add takes 2 operands" in str(error)
else:
    raise AssertionError

# Statements: what is printed runs as Python.
body = [
    doc.AssignDoc(c, doc.LiteralDoc(0)),
    doc.ForDoc(doc.TupleDoc([doc.IdDoc("i"), doc.IdDoc("x")]), doc.IdDoc("enumerate").call(a), [
        doc.IfDoc(op(K.GtE, doc.IdDoc("x"), b), [doc.ExprStmtDoc(doc.IdDoc("print").call(doc.IdDoc("i")))], [
            doc.AssignDoc(c, op(K.Add, c, doc.IdDoc("x"))),
        ]),
    ]),
    doc.AssertDoc(op(K.Eq, c, c), doc.LiteralDoc("same")),
    doc.WhileDoc(op(K.Lt, c, doc.LiteralDoc(0)), []),
    doc.ReturnDoc(c),
]  # fmt: skip
body[0].comment = "the sum"
function = doc.FunctionDoc(
    doc.IdDoc("total"),
    [doc.AssignDoc(a, annotation=doc.IdDoc("list")), doc.AssignDoc(b, doc.LiteralDoc(9))],
    [],
    None,
    body,
)
function.comment = "Adds up what is below b."
script = to_python_script(function, indent_spaces=2)
assert "\n  c = 0  # the sum\n" in script and '"""' in script
names = {}
exec(script, names)
assert names["total"]([1, 2, 30], 20) == 3 and "below b" in names["total"].__doc__
in_class = doc.ClassDoc(
    doc.IdDoc("Sums"), [], [doc.CommentDoc("one\ntwo"), function, doc.StmtBlockDoc([doc.ScopeDoc(None, a, [])])]
)
assert text(in_class).startswith("class Sums:\n    # one\n    # two\n    def total(") and text(in_class).endswith(
    "with a:\n        pass"
)

# What is asked for is underlined; other lines are left out.
sum_ = op(K.Add, a, b)
sum_.source_paths = [ObjectPath.root().attr("value")]
lines = doc.StmtBlockDoc([doc.ExprStmtDoc(x) for x in (a, b, c, sum_, c, b)])
assert (
    text(lines, path_to_underline=[ObjectPath.root().attr("value")], num_context_lines=1)
    == "...\nc\na + b\n^^^^^\nc\n..."
)
assert text(lines, print_line_numbers=True).splitlines()[3] == "4 a + b"
