"""The picture of a compiled model: rows, edges by the memory that calls write and read, lanes, and the times of what is not a pass."""

from __future__ import annotations

import html
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tilewright as tvm
from tests.ir.test_html_report import Page
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.instrument import HtmlReport
from tilewright.relay.backend.planning.graph_drawing import edges_of, graph_svg, lanes_of, rows_of
from tilewright.relay.backend.planning.plan import Plan, make_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.target import Target


def planned(result: relay.Expr) -> Plan:
    target = Target("llvm")
    optimized, _ = relay.optimize(IRModule.from_expr(result), target)
    return make_plan(optimized, TECompiler(target))


def test_edges_follow_the_memory() -> None:
    """Rows: x, sort, softmax over the same memory or not, their sum with x read again at the end, output."""
    x = relay.var("x", shape=(4, 64))
    a = relay.sort(x)
    b = relay.nn.softmax(a)
    c = relay.sort(b)
    p = planned(relay.sort(c + a + x))
    rows = rows_of(p)
    names = [r.name for r in rows]
    assert rows[0].kind == "input" and rows[-1].kind == "output" and len(rows) == len(p.calls) + 2
    edges = edges_of(p)
    read = {names[j] + str(j): sorted([i for i, k in edges if k == j]) for j in range(1, len(rows))}
    assert list(read.values()) == [[0], [1], [2], [0, 1, 3], [4], [5]], (names, edges)


def test_values_that_live_together_have_lanes_of_their_own() -> None:
    assert lanes_of([(0, 1), (1, 2)]) == {}
    assert lanes_of([(0, 4), (1, 3), (3, 6), (4, 8)]) == {0: 0, 1: 1, 3: 1, 4: 0}


def chain(layers: int) -> relay.Expr:
    x = relay.var("x<&>", shape=(4, 64))
    y = x
    for k in range(layers):
        y = relay.sort(y) + (x if k % 5 == 4 else relay.const(1.0))
    return y


@pytest.mark.parametrize("layers", [1, 100])
def test_picture(layers: int) -> None:
    """Well-formed, a row for each call at its own height, nothing outside of the picture."""
    plan = planned(chain(layers))
    picture = ElementTree.fromstring(graph_svg(plan)).find("svg")
    assert picture is not None
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    circles = [c.attrib for c in picture.iter("circle")]
    assert len(circles) == len(plan.calls) + 2 and len({c["cy"] for c in circles}) == len(circles)
    assert all([0 < float(c["cx"]) < width and 0 < float(c["cy"]) < height for c in circles])
    numbers = [float(n) for p in picture.iter("path") for n in re.findall(r"[\d.]+", p.attrib["d"])]
    assert all([n > 0 for n in numbers])
    assert [a.attrib["href"] for a in picture.iter("a")] == [f"#f-{c.kernel.name}" for c in plan.calls]


def test_report_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are told apart, add up to the whole, and what is left is small; the picture's links lead somewhere."""
    # Kernels that other tests left in the cache need no code generation.
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    watch = HtmlReport(tmp_path / "r.html", held=True)
    with tvm.transform.PassContext(opt_level=3, instruments=[watch]):
        relay.build(IRModule.from_expr(chain(6)), target="llvm")
    assert not watch.path.exists()
    watch.write({"importing the model": 1.5, "linking the library": 0.25})
    assert {
        "loading the compiler", "kernels as tensor expressions, memory plan", "code generation", "the entry that calls the kernels",
        "importing the model", "linking the library", "constants", "metadata",
    } <= set(watch.steps)  # fmt: skip
    assert watch.steps["importing the model"] == 1.5
    known = sum(watch.steps.values()) + sum([e.seconds for e in watch.events])
    assert 0.75 * watch._seconds < known <= watch._seconds
    page = Page(watch.path)
    for name in watch.steps:
        assert f'<tr class="step"><td>{html.escape(name)}</td>' in page.text
    assert "graph" in page.ids and {href[1:] for href in page.links} <= set(page.ids)


def test_parts_inside_of_passes_and_of_each_other_are_counted_once() -> None:
    from tests.ir.test_html_report import MOD, grow
    from tilewright.ir.steps import step
    from tilewright.ir.transform import PassContext, module_pass

    @module_pass(opt_level=0, name="with a part")
    def whole(mod: IRModule, ctx: PassContext) -> IRModule:
        with step("inside of a pass"):
            return mod

    watch = HtmlReport("unwritten.html", held=True)
    with PassContext(instruments=[watch]):
        whole(MOD)
        with step("outer"):
            grow(MOD)
            with step("inner"):
                grow(MOD)
    assert set(watch.steps) == {"loading the compiler", "outer", "inner"}
    assert sum(watch.steps.values()) + sum([e.seconds for e in watch.events]) <= watch._seconds
