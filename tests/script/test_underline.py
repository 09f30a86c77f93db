"""Spans of nodes in printed programs, and the error texts that underline them."""

from __future__ import annotations

from tilewright import te, tir
from tilewright.script import print_script, underline, underline_all


def matmul() -> tir.PrimFunc:
    a, b = te.placeholder((8, 4), name="A"), te.placeholder((4, 8), name="B")
    k = te.reduce_axis((0, 4), "k")
    return te.create_prim_func([a, b, te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")])


def test_marks_stand_below_their_lines() -> None:
    text = "for i in 4:\n  eval i\n"
    assert underline(text, (0, 11), "For i") == "for i in 4:\n^^^^^^^^^^^ For i\n  eval i"
    assert underline_all(text, [((14, 20), "Eval"), ((0, 11), "For i")]) == (
        "for i in 4:\n^^^^^^^^^^^ For i\n  eval i\n  ^^^^^^ Eval"
    )


def test_context_elides_the_rest() -> None:
    text = "\n".join(f"line {i}" for i in range(9))
    assert underline(text, (28, 32), "here", context_lines=1) == "...\nline 3\nline 4\n^^^^ here\nline 5\n..."


def test_a_span_over_lines_is_marked_on_its_first() -> None:
    assert underline("ab\ncd\n", (1, 5), "x") == "ab\n ^ x\ncd"


def test_every_kind_of_node_is_found() -> None:
    func = matmul()
    printed = print_script(func)
    root = func.body.block  # type: ignore[attr-defined]
    loop = root.body
    realize = loop.body.body.body
    block = realize.block
    texts = {
        "loop": loop,
        "inner": loop.body,
        "realize": realize,
        "block": block,
        "store": block.body,
        "region": block.reads[0],
        "axis": block.iter_vars[2],
        "function": func,
    }
    found = {name: printed.text[slice(*printed.find(node)[0])] for name, node in texts.items()}
    assert found == {
        "loop": "for i, j, k in T.grid(8, 8, 4):",
        "inner": "j",
        "realize": 'with T.block("C"):',
        "block": 'T.block("C")',
        "store": "C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]",
        "region": "A[v_i, v_k]",
        "axis": "v_k",
        "function": 'def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 8), "float32"), '
        'C: T.Buffer((8, 8), "float32")):',
    }
    assert printed.line_of(block.body) == 14


def test_underline_of_nodes_in_a_program() -> None:
    func = matmul()
    printed = print_script(func)
    block = func.body.block.body.body.body.body.block  # type: ignore[attr-defined]
    text = printed.underline([(block.body, "writes C"), (block.reads[1], "reads B")], context_lines=0)
    assert text == (
        "...\n"
        "            T.reads(A[v_i, v_k], B[v_k, v_j])\n"
        "                                 ^^^^^^^^^^^ reads B\n"
        "...\n"
        "            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ writes C"
    )
    assert "^^^" in func.script(obj_to_underline=(block.body,))
    assert "# the culprit\n" in func.script(obj_to_annotate={block.body: "the culprit"})
