"""The report of a compilation: read back from the HTML, it tells every pass, what changed, and all texts."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tilewright import tir
from tilewright.ir import IRModule
from tilewright.ir.instrument import HtmlReport
from tilewright.ir.transform import PassContext, Sequential, module_pass

VOID = {"meta", "link", "br", "input", "rect", "line", "img", "hr"}
MOD = IRModule({"main": tir.PrimFunc([], tir.Evaluate(0)), "other": tir.PrimFunc([], tir.Evaluate(7))})


@module_pass(opt_level=0, name="grow")
def grow(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_functions(
        {**mod.functions, mod.get_global_var("main"): tir.PrimFunc([], tir.Evaluate(tir.Var("n", "int32") + 1))}
    )


@module_pass(opt_level=0, name="keep<&>")
def keep(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0, name="drop")
def drop(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_functions({g: f for g, f in mod.functions.items() if g.name_hint != "other"})


@module_pass(opt_level=0, name="fails")
def fails(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("on purpose")


class Page(HTMLParser):
    """What the tests ask of a report: passes as (depth, name, classes, numbers of differences), functions, unpacked texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.passes: list[tuple[int, str, set[str], list[int]]] = []
        self.functions: dict[str, str] = {}
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.packed = ""
        self._taking = False
        self._open: list[tuple[int, str, set[str], list[int]]] = []
        self.feed(self.text)
        self.close()
        assert self.stack == [], "every element is closed"
        data = json.loads(zlib.decompress(base64.b64decode(self.packed)))
        self.diffs: list[str] = data["diffs"]
        self.texts: list[str] = data["texts"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found: dict[str, Any] = dict(attrs)
        kinds = set((found.get("class") or "").split())
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag == "details":
            if "func" in kinds:
                self.functions[found["data-name"]] = found["data-text"]
            row = (sum(t == "details" for t in self.stack), found["data-name"], kinds, [])
            self._open.append(row)
            if "pass" in kinds:
                self.passes.append(row)
        if tag == "div" and "diff" in kinds:
            self._open[-1][3].append(int(found["data-diff"]))
        self._taking = found.get("id") == "data"
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("polygon", "rect", "line"):
            self.stack = [t for t in self.stack if t != tag]
            return
        assert self.stack.pop() == tag
        self._taking = False
        if tag == "details":
            self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        if self._taking:
            self.packed += data


def report(path: Path, *passes: Any) -> Page:
    with PassContext(instruments=[HtmlReport(path, "a <title>")]):
        mod = MOD
        for p in passes:
            mod = p(mod)
    return Page(path)


def test_every_pass_is_there_in_order(tmp_path: Path) -> None:
    page = report(tmp_path / "r.html", Sequential([keep, grow, Sequential([drop], name="inner")], name="outer"), keep)
    assert [(d, n) for d, n, _, _ in page.passes] == [
        (0, "outer"),
        (1, "keep<&>"),
        (1, "grow"),
        (1, "inner"),
        (2, "drop"),
        (0, "keep<&>"),
    ]
    kinds = {n: k for _, n, k, _ in page.passes}
    assert "group" in kinds["outer"] and "same" in kinds["keep<&>"] and "same" not in kinds["grow"]
    assert "<h1>a &lt;title&gt;</h1>" in page.text
    assert "6 passes, 2 changed something, 2 functions" in page.text


def test_differences_and_texts(tmp_path: Path) -> None:
    page = report(tmp_path / "r.html", keep, grow, drop)
    (grown,) = [page.diffs[i] for _, n, _, ids in page.passes if n == "grow" for i in ids]
    assert [line for line in grown.split("\n") if line[0] in "+-" and line[1:]] == [
        "+n = T.int32()",
        "-    T.evaluate(0)",
        "+    T.evaluate(n + 1)",
    ]
    (dropped,) = [page.diffs[i] for _, n, _, ids in page.passes if n == "drop" for i in ids]
    assert all(line[0] in "-@" for line in dropped.split("\n"))
    assert "T.evaluate(n + 1)" in page.texts[int(page.functions["main"])]
    assert "T.evaluate(7)" in page.texts[int(page.functions["other"])]


def test_links_lead_somewhere(tmp_path: Path) -> None:
    page = report(tmp_path / "r.html", grow, drop)
    assert len(set(page.ids)) == len(page.ids)
    assert {href[1:] for href in page.links} <= set(page.ids)


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    page = report(tmp_path / "r.html", grow)
    assert "http" not in page.text
    assert " src=" not in page.text


def test_a_failing_pass_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        report(tmp_path / "r.html", Sequential([grow, fails], name="outer"))
    page = Page(tmp_path / "r.html")
    assert [(n, "failed" in k) for _, n, k, _ in page.passes] == [("outer", True), ("grow", False), ("fails", True)]


def test_sections_are_added(tmp_path: Path) -> None:
    watch = HtmlReport(tmp_path / "r.html")
    with PassContext(instruments=[watch]):
        grow(MOD)
        watch.add_section("Memory", "<p>all {{of}} it</p>")
    page = Page(tmp_path / "r.html")
    assert "memory" in page.ids
    assert "<p>all {{of}} it</p>" in page.text


def test_a_missing_folder_is_told_before_anything_runs(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="but there is no folder"),
        PassContext(instruments=[HtmlReport(tmp_path / "no" / "r.html")]),
    ):
        raise AssertionError("nothing runs")
