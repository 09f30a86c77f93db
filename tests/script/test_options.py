"""Options of script() and show(), and paths to nodes."""

from __future__ import annotations

import inspect
import sys
import types

import pytest

import tilewright as tvm
from tests.generators.roundtrip import assert_roundtrip
from tilewright import te, tir
from tilewright.node import ObjectPath, first_mismatch
from tilewright.script import from_source
from tilewright.script.highlight import cprint
from tilewright.script.printer import PrinterConfig

PROGRAM = """\
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), n: T.int32):
    for i, j in T.grid(8, 8):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * 2.0
"""
ROOT = ObjectPath.root()


def body(text: str) -> list[str]:
    """The lines of a program below its header."""
    lines = text.split("\n")
    return lines[next(i for i, line in enumerate(lines) if "def " in line) :]


def test_the_options_are_those_of_v0_18() -> None:
    names = """name show_meta ir_prefix tir_prefix relax_prefix module_alias buffer_dtype int_dtype float_dtype verbose_expr
        indent_spaces print_line_numbers num_context_lines syntax_sugar show_object_address show_all_struct_info
        path_to_underline path_to_annotate obj_to_underline obj_to_annotate"""
    assert list(inspect.signature(PrinterConfig).parameters) == names.split()
    f = from_source(PROGRAM)
    for name in names.split():
        assert f.script(**{name: getattr(PrinterConfig(), name)}) == f.script()
    assert list(inspect.signature(f.show).parameters) == ["style", "black_format", "options"]


def test_names_and_prefixes() -> None:
    f = from_source(PROGRAM)
    text = f.script(name="g", tir_prefix="tir", indent_spaces=2)
    assert "@tir.prim_func\ndef g(A: tir.Buffer((8, 8)" in text and "\n  for i, j in tir.grid(8, 8):\n" in text
    assert 'tir.func_attr({"global_symbol": "f"})' in text
    module = tvm.IRModule({"f": f})
    assert "@II.ir_module\nclass Mine:" in module.script(name="Mine", ir_prefix="II")
    call = tir.Evaluate(tir.Call("void", tvm.ir.GlobalVar("f"), []))
    assert "me.f()" in tvm.IRModule({"f": tir.PrimFunc([], call)}).script(module_alias="me")


def test_types_that_go_without_saying() -> None:
    text = from_source(PROGRAM).script(buffer_dtype="int8", int_dtype="int64", float_dtype="float32")
    assert "A[vi, vj] = A[vi, vj] * 2.0" in text
    assert "for i, j in T.grid(T.int32(8), T.int32(8))" in text
    # As an annotation of a parameter a buffer always says its type.
    assert 'A: T.Buffer((T.int32(8), T.int32(8)), "float32")' in text


def test_without_sugar() -> None:
    f = from_source(PROGRAM)
    text = f.script(syntax_sugar=False)
    assert "for i in range(8):\n        " in text and 'with T.block("root"):' in text and "remap" not in text
    assert first_mismatch(f, from_source(text)) is None


def test_expressions_with_their_variables() -> None:
    n, a = tir.Var("n", "int64"), tir.decl_buffer((4,), "int8", "A")
    e = tir.BufferLoad(a, [0]).astype("int64") + n
    assert e.script() == 'T.Cast("int64", A[0]) + n' == str(e)
    assert e.script(verbose_expr=True).split("\n") == [
        "# from tilewright.script import tir as T",
        "",
        'A = T.Buffer((4,), "int8")',
        "n = T.int64()",
        "",
        'T.Cast("int64", A[0]) + n',
    ]


def test_lines_and_context() -> None:
    f = from_source(PROGRAM)
    block = f.body.block.body.body.body.block
    text = f.script(obj_to_underline=[block.body], num_context_lines=1, print_line_numbers=True)
    assert text.split("\n") == [
        "1 ...",
        "2             T.writes(A[vi, vj])",
        "3             A[vi, vj] = A[vi, vj] * T.float32(2)",
        "4             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert f.script(obj_to_underline=[block.body], num_context_lines=-1) == f.script(obj_to_underline=[block.body])


def test_paths_underline_and_annotate() -> None:
    f = from_source(PROGRAM)
    store = ROOT.attr("body").attr("block").attr("body").attr("body").attr("body").attr("block").attr("body")
    value = store.attr("value").attr("b").attr("value")
    lines = body(f.script(path_to_underline=[value], path_to_annotate={store: "twice"}))
    assert lines[-3:] == [
        "            # twice",
        "            A[vi, vj] = A[vi, vj] * T.float32(2)",
        "                                    ^^^^^^^^^^^^",
    ]
    with pytest.raises(LookupError, match=r"the path <root>.body.foo ends at <root>.body, a BlockRealize"):
        f.script(path_to_underline=[ROOT.attr("body").attr("foo")])


def test_addresses() -> None:
    f = from_source(PROGRAM)
    text = f.script(show_object_address=True)
    assert f"n_{id(f.params[1]):#x}: T.int32" in text
    assert first_mismatch(f, from_source(text)) is None


def test_metadata_can_be_left_out() -> None:
    f = tir.PrimFunc([], tir.Evaluate(0), attrs={"x": te.placeholder((4,), name="P")})
    assert_roundtrip(f)
    assert "load_json" not in f.script(show_meta=False)
    assert "# Metadata is left out; script(show_meta=True) shows it." in f.script(show_meta=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"show_mta": True}, "script has no option show_mta; did you mean show_meta?"),
        ({"tir_prefix": "a b"}, "script: tir_prefix must be a name, but is 'a b'"),
        ({"indent_spaces": 0}, "script: indent_spaces must be at least 1, but is 0"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        from_source(PROGRAM).script(**options)
    assert str(error.value) == message


def test_show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    f = from_source(PROGRAM)
    f.show(name="g")
    cprint(f)
    tvm.IRModule({"f": f}).show("dark", print_line_numbers=True)
    shown = capsys.readouterr().out
    assert shown.startswith(f.script(name="g") + "\n" + f.script() + "\n" + " 1 # from")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for style in (None, "light", "dark", "ansi", "vim"):
        f.show(style)
    assert "def" in capsys.readouterr().out


def test_show_with_black(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    f = from_source(PROGRAM)
    black = types.ModuleType("black")
    black.FileMode = lambda: None  # type: ignore[attr-defined]
    black.format_str = lambda source, mode: source.upper()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "black", black)
    f.show(black_format=True)
    assert capsys.readouterr().out == f.script().upper() + "\n"
    monkeypatch.setitem(sys.modules, "black", None)
    with pytest.warns(UserWarning, match="black_format needs the package black"):
        f.show(black_format=True)


def test_paths() -> None:
    path = ROOT.attr("buffer_map").map_value("A").attr("shape").array_index(1)
    assert str(path) == "<root>.buffer_map['A'].shape[1]" and len(path) == 5
    assert str(ObjectPath.root("lhs").attr("body")) == "lhs.body"
    assert path.parent == ROOT.attr("buffer_map").map_value("A").attr("shape") and path.parent != path
    assert path.get_prefix(2) == ROOT.attr("buffer_map") and path.get_prefix(2).is_prefix_of(path)
    assert not path.is_prefix_of(path.get_prefix(2))
    assert hash(path) == hash(path.parent.array_index(1))
    with pytest.raises(IndexError, match=r"has prefixes of 1\.\.5 steps, but 6 was asked for"):
        path.get_prefix(6)


def test_the_first_mismatch_as_paths() -> None:
    f, g = from_source(PROGRAM), from_source(PROGRAM.replace("2.0", "3.0"))
    assert tvm.ir.get_first_structural_mismatch(f, from_source(PROGRAM)) is None
    found = tvm.ir.get_first_structural_mismatch(f, g)
    assert found is not None
    left, right = found
    assert str(left) == "<root>.body.block.body.body.body.block.body.value.b.value" and left == right
    assert left.resolve(f) == 2.0 and right.resolve(g) == 3.0
    shorter = tir.SeqStmt([tir.Evaluate(1), tir.Evaluate(2)])
    longer = tir.SeqStmt([tir.Evaluate(1), tir.Evaluate(2), tir.Evaluate(3)])
    assert [str(p) for p in tvm.ir.get_first_structural_mismatch(shorter, longer) or ()] == [
        "<root>.seq[<missing index 2>]",
        "<root>.seq[2]",
    ]
