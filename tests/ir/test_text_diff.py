"""Differences of printed programs: numbers of values that only moved are no difference, other operands are."""

from __future__ import annotations

import random

from tilewright.ir.text_diff import diff


def test_equal_texts_do_not_differ() -> None:
    assert diff("a\nb", "a\nb") == []


def test_moved_numbers_are_no_difference() -> None:
    old = "fn (%x) {\n  %0 = tanh(%x);\n  %1 = copy(%0);\n  %2 = exp(%1);\n  %3 = log(%2);\n  sin(%3)\n}"
    new = "fn (%x) {\n  %0 = tanh(%x);\n  %1 = exp(%0);\n  %2 = log(%1);\n  sin(%2)\n}"
    assert diff(old, new, 0) == ["@@", "-  %1 = copy(%0);", "-  %2 = exp(%1);", "+  %1 = exp(%0);"]


def test_another_operand_is_a_difference() -> None:
    old = "  %0 = a();\n  %1 = b();\n  add(%0, %1)"
    new = "  %0 = a();\n  %1 = b();\n  add(%0, %0)"
    assert diff(old, new, 1) == ["@@", "   %1 = b();", "-  add(%0, %1)", "+  add(%0, %0)"]


def test_added_and_removed_ends() -> None:
    assert diff("", "a\nb") == ["@@", "+a", "+b"]
    assert diff("a\nb", "b") == ["@@", "-a", " b"]
    assert diff("a\nb", "a") == ["@@", " a", "-b"]


def test_repeated_layers_stay_aligned() -> None:
    layer = ["dense", "add", "copy", "gelu", "dense", "add", "norm"]
    old = [f"{op}()" for _ in range(200) for op in layer]
    new = [line for line in old if line != "copy()"]
    got = diff("\n".join(old), "\n".join(new), 0)
    assert got == ["@@", "-copy()"] * 200


def test_every_line_is_told() -> None:
    rng = random.Random(0)
    for _ in range(200):
        old = [rng.choice("abcdef") for _ in range(rng.randrange(12))]
        new = [line for line in old if rng.random() < 0.7]
        for _ in range(rng.randrange(4)):
            new.insert(rng.randrange(len(new) + 1), rng.choice("abcdefg"))
        got = [line for line in diff("\n".join(old), "\n".join(new), 99) if line != "@@"]
        if old != new:
            assert [line[1:] for line in got if line[0] != "+"] == old
            assert [line[1:] for line in got if line[0] != "-"] == new


def test_constants_that_only_moved_are_no_difference() -> None:
    old = "  %0 = add(%x, meta[relay.Constant][0]);\n  %1 = exp(%0);\n  mul(%1, meta[relay.Constant][1])"
    new = "  %0 = exp(%x);\n  mul(%0, meta[relay.Constant][0])"
    assert diff(old, new, 0) == [
        "@@",
        "-  %0 = add(%x, meta[relay.Constant][0]);",
        "-  %1 = exp(%0);",
        "+  %0 = exp(%x);",
    ]
