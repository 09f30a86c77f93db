"""Instructions of the loops of PTX, by kind: what a step of a kernel costs besides its copies and products.

PTX is what a compiler has optimised, before NVIDIA's assembler chooses instructions of the machine: two forms of a kernel compare by it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

KINDS: tuple[tuple[str, str], ...] = (
    ("matrix", r"(wg)?mma\.(?!fence|commit|wait)|wmma\."),
    ("copy", r"cp\.async\.(c[ag]|bulk)"),
    ("wait", r"cp\.async|mbarrier|bar\.|barrier|wgmma\.|fence|membar"),
    ("shared", r"(ld|st|ldmatrix|stmatrix|atom)\S*\.shared|ldmatrix|stmatrix"),
    ("global", r"(ld|st|atom|red)\S*\.global"),
    ("local", r"(ld|st)\.local"),
    ("control", r"bra|ret|exit|call|setmaxnreg"),
    ("move", r"mov\.|cvta\."),
    ("float", r"\S+\.(f16|f16x2|bf16|bf16x2|f32|f64)\b"),
    ("integer", r"(add|sub|mul|mad|div|rem|abs|neg|min|max|shl|shr|shf|and|or|xor|not|lop3|bfe|bfi|prmt|selp|setp?|cvt|slct|popc|clz)\b"),
)  # fmt: skip
"""Kind -> the instructions of it, the first that fits. Conversions and comparisons of floats count as float."""
_LINE = re.compile(r"\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s*([^;]*);")
_LABEL = re.compile(r"\s*(\$?\w+):")


class PtxLoop(NamedTuple):
    """A loop of a kernel. label: of its begin; counts: instructions by kind of one iteration, all branches together."""

    kernel: str
    label: str
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def kind_of(instruction: str) -> str:
    """The kind of an instruction such as "add.s32"."""
    return next((kind for kind, text in KINDS if re.match(text, instruction)), "other")


def loops_of(ptx: str) -> list[PtxLoop]:
    """The loops of the kernels of PTX, in the order in which they end: from a label to a branch back to it."""
    found: list[PtxLoop] = []
    for kernel, lines in _kernels(ptx):
        begins: dict[str, int] = {}
        kinds: list[str] = []
        for line in lines:
            label = _LABEL.match(line)
            if label is not None and "." not in label[1]:
                begins[label[1]] = len(kinds)
                continue
            made = _LINE.match(line)
            if made is None:
                continue
            kinds.append(kind_of(made[1]))
            to = made[2].strip() if made[1].startswith("bra") else ""
            # Waits for barriers are loops of their own, which take an instruction or two.
            if to in begins and len(kinds) - begins[to] > 3:
                found.append(PtxLoop(kernel, to, dict(Counter(kinds[begins[to] :]))))
    return found


def step_of(ptx: str, kernel: str = "") -> PtxLoop | None:
    """The loop with the most matrix instructions, of a kernel or of all; of several, one that also copies, as the last steps of a pipeline
    do not. None where no loop has matrix instructions."""
    loops = [loop for loop in loops_of(ptx) if kernel in ("", loop.kernel) and loop.counts.get("matrix")]
    return max(loops, key=lambda loop: (loop.counts["matrix"], "copy" in loop.counts, -loop.total), default=None)


def _kernels(ptx: str) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of each kernel."""
    parts = re.split(r"\.entry\s+(\w+)", ptx)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        yield name, text.splitlines()


__all__ = ["KINDS", "PtxLoop", "kind_of", "loops_of", "step_of"]
