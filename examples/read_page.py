"""Reads a photographed page with compiled PP-OCR models, and checks the text against ONNX Runtime's.

The pre- and post-processing is rapidocr-onnxruntime's own; its sessions are replaced by libraries that
Tilewright compiles, one for each input shape that comes. Run it with `make demo`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import skimage.data
from rapidocr_onnxruntime import RapidOCR
from rich import box
from rich.console import Console
from rich.table import Table

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor


class CompiledSession:
    """Stands in for the package's own session: compiles the model for each new input shape, then runs it."""

    def __init__(self, model_path: str, name: str, peer: Any, console: Console) -> None:
        self.model = onnx.load(model_path)
        self.name, self.peer, self.console = name, peer, console
        self.input_name = self.model.graph.input[0].name
        self.metadata = {p.key: p.value for p in self.model.metadata_props}
        self.executors: dict[tuple[int, ...], graph_executor.GraphModule] = {}
        self.compile_seconds: dict[tuple[int, ...], float] = {}
        self.inputs: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, data: np.ndarray) -> list[np.ndarray]:
        if data.shape not in self.executors:
            self.executors[data.shape] = self.compile(data.shape)
            self.inputs[data.shape] = data
        executor = self.executors[data.shape]
        executor.set_input(self.input_name, np.ascontiguousarray(data))
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    def compile(self, shape: tuple[int, ...]) -> graph_executor.GraphModule:
        start = time.perf_counter()
        with self.console.status(f"compiling {self.name} for {'x'.join(map(str, shape))}"):
            mod, params = relay.frontend.from_onnx(self.model, shape={self.input_name: shape})
            with tvm.transform.PassContext(opt_level=3):
                library = relay.build(mod, target="llvm", params=params)
            executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
        self.compile_seconds[shape] = time.perf_counter() - start
        return executor

    def get_character_list(self, key: str = "character") -> list[str]:
        return self.metadata[key].splitlines()

    def have_key(self, key: str = "character") -> bool:
        return key in self.metadata


def median_milliseconds(runs: list[Any], repeats: int) -> list[float]:
    """Medians of several callables, run in turn so that each meets the same machine."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, record in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            record.append((time.perf_counter() - start) * 1e3)
    return [float(np.median(t)) for t in times]


def compile_in_place(engine: RapidOCR, console: Console) -> list[CompiledSession]:
    """Replaces the three sessions of an engine by compiled ones."""
    models = Path(sys.modules["rapidocr_onnxruntime"].__file__ or "").parent / "models"
    sessions = []
    for holder, attribute, name, pattern in (
        (engine.text_det, "infer", "detection", "*det*.onnx"),
        (engine.text_cls, "infer", "direction", "*cls*.onnx"),
        (engine.text_rec, "session", "recognition", "*rec*.onnx"),
    ):
        session = CompiledSession(str(next(models.glob(pattern))), name, getattr(holder, attribute), console)
        setattr(holder, attribute, session)
        sessions.append(session)
    return sessions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repeats", type=int, default=9, help="runs of each model, of which the median is shown (default: 9)"
    )
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 100)
    page = np.repeat(skimage.data.page()[:, :, None], 3, axis=2)
    peer_lines, _ = RapidOCR()(page)
    engine = RapidOCR()
    sessions = compile_in_place(engine, console)
    our_lines, _ = engine(page)

    console.rule("the page, read by compiled models")
    for _, text, score in our_lines:
        console.print(f"  {text}  [dim]({float(score):.3f})[/dim]", highlight=False)

    table = Table(title="milliseconds a call, medians, interleaved", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("model", "input", "compile s", "Tilewright", "ONNX Runtime", "ratio", "difference"):
        table.add_column(column, justify="left" if column in ("model", "input") else "right")
    worst = 0.0
    for session in sessions:
        for shape, data in session.inputs.items():
            mine, theirs = median_milliseconds(
                [lambda s=session, d=data: s(d), lambda s=session, d=data: s.peer(d)], options.repeats
            )
            difference = max(
                float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-6))
                for a, b in zip(session(data), session.peer(data), strict=True)
            )
            worst = max(worst, difference)
            table.add_row(
                session.name,
                "x".join(map(str, shape)),
                f"{session.compile_seconds[shape]:.2f}",
                f"{mine:.2f}",
                f"{theirs:.2f}",
                f"{mine / theirs:.2f}",
                f"{difference:.1e}",
            )
    console.print(table)

    same = [text for _, text, _ in our_lines] == [text for _, text, _ in peer_lines]
    if not same or worst > 1e-3:
        console.print(f"[red]the answers differ from ONNX Runtime's: {[text for _, text, _ in peer_lines]}")
        return 1
    console.print(f"[green]the text equals ONNX Runtime's, line by line ({len(our_lines)} lines)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
