"""docs/passes.md lists the passes; it is generated from their docstrings and from the properties that they need and give."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tilewright.ir.transform import Pass
from tilewright.tir import transform as P

PAGE = Path(__file__).parents[2] / "docs" / "passes.md"
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Apply": (lambda f: f,), "BindTarget": ("llvm",), "Filter": (lambda f: True,), "InjectCopyIntrin": ("copy", None),
    "LiftAttrScope": ("key",), "StorageFlatten": (64,), "ThreadSync": ("shared",), "VerifyGPUCode": ({},),
}  # fmt: skip
HEAD = """# Passes of tir

Reference of all passes in `tvm.tir.transform`. A pass can be called on an IRModule, or put into a `tvm.transform.Sequential`.
[Passes of your own](custom_passes.md) shows how to write and run passes; `driver/pipeline.py` shows the order in which `lower` runs
them.

`needs` and `gives` are properties of programs. A pass can run only after passes that give what it needs: `Sequential` checks the
order, and `tir.analysis.verify_stage` checks that a program has the properties. This page is generated from the docstrings (`pytest
tests/tir_transform/test_pass_list.py --update`).

| pass | needs | gives | what it does |
|---|---|---|---|
"""


def passes() -> dict[str, Any]:
    names = {n for n in P.__all__ if n[0].isupper() and not n.startswith(("Hoisted", "PrimFuncPass"))}
    return {n: getattr(P, n) for n in sorted(names | {"DefaultGPUSchedule"})}


def made(name: str) -> Pass:
    found = passes()[name](*ARGUMENTS.get(name, ()))
    assert isinstance(found, Pass)
    return found


def summary(factory: Any) -> str:
    """The docstring's first paragraph, on one line."""
    text = inspect.getdoc(factory) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def page() -> str:
    lines = []
    for name, factory in passes().items():
        info = made(name).info
        arguments = ", ".join(inspect.signature(factory).parameters)
        cells = [f"`{name}({arguments})`", " ".join(info.needs), " ".join(info.gives), summary(factory)]
        lines.append("| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update", default=False):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "docs/passes.md is old: pytest tests/tir_transform/test_pass_list.py --update"


@pytest.mark.parametrize("name", passes())
def test_passes_have_their_classic_names(name: str) -> None:
    info = made(name).info
    assert info.name in (f"tir.{name}", name), "the name under which contexts disable and instruments see it"
    assert summary(passes()[name]).endswith(".") and len(summary(passes()[name])) > 20
