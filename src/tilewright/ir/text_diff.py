"""Differences of printed programs, in which a line is the same line when only the numbers of values moved."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Sequence

CONTEXT = 3
"""Unchanged lines shown around what changed."""

_NUMBERED = re.compile(r"%[A-Za-z_.]*\d+|meta\[[\w.]+\]\[\d+\]")
"""Values that a printer numbers: %12, %p03, and constants, whose values the text does not tell."""
_VALUE = re.compile(r"%[\w.]+|(?<=\]\[)\d+(?=\])")

Pair = tuple[int, int]


def diff(old: str, new: str, context: int = CONTEXT) -> list[str]:
    """The differing lines with "-" or "+" before them, and `context` lines around; "@@" begins each place. Lines of the
    new text are shown where both have them. Values that are only numbered otherwise (%12 for %14) do not differ."""
    if old == new:
        return []
    before, after = old.splitlines(), new.splitlines()
    pairs = _same_lines(before, after)
    return _hunks(_entries(before, after, pairs), context)


def _key(line: str) -> str:
    """A line without the values that it names: what it does, not to what."""
    return _VALUE.sub("%", line)


def _same_lines(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Pairs of lines, in order, that say the same of the same values."""
    pairs = _align([_key(line) for line in before], [_key(line) for line in after])
    # The lines that pair up say which value is which; a line that names another value has changed after all.
    renamed: dict[str, str] = {}
    for i, j in pairs:
        for a, b in zip(_defined(before[i]), _defined(after[j]), strict=False):
            renamed[a] = b
        for a, b in zip(_NUMBERED.findall(before[i]), _NUMBERED.findall(after[j]), strict=False):
            if a[0] == "m":
                renamed.setdefault(a, b)
    return [(i, j) for i, j in pairs if _NUMBERED.sub(lambda m: renamed.get(m.group(), "?"), before[i]) == after[j]]


def _defined(line: str) -> list[str]:
    """The values that a line names for the first time: its own, and parameters."""
    if " fn (" in line or line.lstrip().startswith(("def ", "fn (")):
        return _NUMBERED.findall(line)
    return _NUMBERED.findall(line)[:1] if " = " in line else []


def _align(a: Sequence[str], b: Sequence[str]) -> list[Pair]:
    """Equal lines in order. The nth of equal lines goes with the nth first, in the longest run that keeps the order; what lies
    between is aligned by difflib, piece by piece: that stays fast where a program repeats itself."""
    shorter = min(len(a), len(b))
    start = next((k for k in range(shorter) if a[k] != b[k]), shorter)
    end = next((k for k in range(shorter - start) if a[-1 - k] != b[-1 - k]), shorter - start)
    pairs = [(k, k) for k in range(start)]
    i, j = start, start
    stop = (len(a) - end, len(b) - end)
    anchors = [(m + start, n + start) for m, n in _anchors(a[start : stop[0]], b[start : stop[1]])]
    for m, n in [*anchors, stop]:
        if m > i and n > j:
            blocks = difflib.SequenceMatcher(None, a[i:m], b[j:n]).get_matching_blocks()
            pairs += [(i + block.a + k, j + block.b + k) for block in blocks for k in range(block.size)]
        if (m, n) != stop:
            pairs.append((m, n))
        i, j = m + 1, n + 1
    return pairs + [(stop[0] + k, stop[1] + k) for k in range(end)]


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[Pair]:
    """The longest increasing sequence of (place in a, place in b) of the nth of equal lines."""
    places = {line: j for j, line in enumerate(_counted(b))}
    candidates = [(i, places[line]) for i, line in enumerate(_counted(a)) if line in places]
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for n, (_, j) in enumerate(candidates):
        k = bisect_left(tails, j)
        if k == len(tails):
            tails.append(j)
            ends.append(n)
        else:
            tails[k], ends[k] = j, n
        previous.append(ends[k - 1] if k else -1)
    chosen: list[Pair] = []
    n = ends[-1] if ends else -1
    while n >= 0:
        chosen.append(candidates[n])
        n = previous[n]
    return chosen[::-1]


def _counted(lines: Sequence[str]) -> list[tuple[str, int]]:
    seen: dict[str, int] = {}
    out = []
    for line in lines:
        seen[line] = seen.get(line, 0) + 1
        out.append((line, seen[line]))
    return out


def _entries(before: Sequence[str], after: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """All lines of both, marked "-", "+" or " "."""
    out: list[str] = []
    i = j = 0
    for m, n in pairs:
        out += [f"-{line}" for line in before[i:m]]
        out += [f"+{line}" for line in after[j:n]]
        out.append(f" {after[n]}")
        i, j = m + 1, n + 1
    return out + [f"-{line}" for line in before[i:]] + [f"+{line}" for line in after[j:]]


def _hunks(entries: Sequence[str], context: int) -> list[str]:
    """The entries near what changed, in pieces."""
    shown: set[int] = set()
    for n, line in enumerate(entries):
        if line[0] != " ":
            shown.update(range(max(0, n - context), min(len(entries), n + context + 1)))
    out: list[str] = []
    for n in sorted(shown):
        if n - 1 not in shown:
            out.append("@@")
        out.append(entries[n])
    return out
