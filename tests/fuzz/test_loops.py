"""Some programs of the fuzzer of loops, and that it tells wrong answers and processes that end."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from tests.fuzz import loops


def test_programs() -> None:
    totals: Counter[str] = Counter()
    assert list(loops.findings(0, 12, totals)) == []
    assert totals["compiled"] > 45 and not totals["refused"]


def test_programs_do_something() -> None:
    """Most write several elements, go backwards or in steps somewhere, and are of many types."""
    made = [loops.Generator(seed) for seed in range(100)]
    texts = [g.function().script() for g in made]
    changed = 0
    for g in made[:30]:
        given = g.arrays()
        got = [a.copy() for a in given]
        with np.errstate(all="ignore"):
            loops.interp.run(g.function(), [*got, g.count])
        changed += sum([int((a != b).sum()) for a, b in zip(given, got, strict=True)]) > 3
    assert changed > 15
    for word, least in (("* -", 30), ("while ", 5), ("if ", 30), ("T.allocate", 15), ("T.Select", 20), ("T.Let", 20)):
        assert sum([word in text for text in texts]) >= least, word
    assert {str(b.dtype) for g in made for b in g.buffers} == set(loops.DTYPES)


def test_a_wrong_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = loops.ran
    assert loops.check(3) == ""
    monkeypatch.setattr(loops, "ran", lambda code, arrays, *rest: [a ^ a for a in right(code, arrays, *rest)])
    monkeypatch.setattr(loops, "DTYPES", ("int32",))
    assert "differs" in loops.check(3)


def test_a_process_that_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, sys; print('now 3 at 3 for llvm', flush=True); print('it is lost', file=sys.stderr, flush=True); os.abort()"
    monkeypatch.setattr(loops, "COMMAND", [sys.executable, "-c", program])
    assert list(loops.findings(3, 1, Counter())) == ["seed 3 at 3 for llvm: the process ends with -6: it is lost"]
