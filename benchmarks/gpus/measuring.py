"""Times on a GPU: CUDA events around each call, the second cache flushed before it, both sides in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.gpus.cases import Case
from benchmarks.gpus.results import Result

ROUNDS, BURST = 4, 0.06
"""Turns of each side, and seconds of the device for one."""
LEAST, MOST = 2, 40
"""Calls in a turn."""


class Watch(Protocol):
    """What times calls; a device, or a stand-in for tests."""

    def times(self, run: Callable[[], Any], count: int) -> list[float]:
        """Milliseconds of each of so many calls."""


class Gpu:
    """The GPU of this machine, by PyTorch. All work goes to one stream."""

    place = "cuda"
    """The device's name in PyTorch."""

    def __init__(self) -> None:
        import torch

        import tilewright as tvm

        self._torch, self.device = torch, tvm.cuda(0)
        props = torch.cuda.get_device_properties(0)
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.device.set_raw_stream(self.stream.cuda_stream)
        self._flushed = torch.empty(4 * props.L2_cache_size, dtype=torch.int8, device="cuda")
        major, minor = torch.cuda.get_device_capability(0)
        own = "a" if major in (9, 10) else ""
        self.target = f"cuda -arch=sm_{major}{minor}{own}"
        self.facts = {
            "name": props.name,
            "arch": f"sm_{major}{minor}{own}",
            "multiprocessors": props.multi_processor_count,
            "l2_bytes": props.L2_cache_size,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True

    def times(self, run: Callable[[], Any], count: int) -> list[float]:
        torch = self._torch
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for start, end in events:
            self._flushed.zero_()
            start.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in events]

    def executor(self, library: Any, graph: bool) -> Any:
        """An executor of a library; graph: that replays a CUDA graph."""
        from tilewright.contrib.cuda_graph.cuda_graph_executor import GraphModuleCudaGraph
        from tilewright.contrib.graph_executor import GraphModule

        if graph:
            return GraphModuleCudaGraph(library["cuda_graph_create"](self.device))
        return GraphModule(library["default"](self.device))

    def wait(self) -> None:
        """Until the device has done everything."""
        self._torch.cuda.synchronize()

    def bandwidth(self) -> float:
        """Bytes a second of a copy of 4 GiB, read and written: the best of several, as what operators bound by memory are held to."""
        size = 4 << 30
        source = self._torch.empty(size, dtype=self._torch.int8, device="cuda")
        to = self._torch.empty_like(source)
        self.times(lambda: to.copy_(source), 2)
        return 2 * size / (min(self.times(lambda: to.copy_(source), 10)) / 1e3)


def turns(case: Case, watch: Watch, ours: Callable[[], Any], peer: Callable[[], Any]) -> Result:
    """Both sides in turns; before, each runs twice."""
    counts = []
    for run in (ours, peer):
        watch.times(run, 1)
        once = watch.times(run, 1)[0]
        counts.append(max(LEAST, min(MOST, int(BURST * 1e3 / max(once, 1e-3)))))
    rounds: tuple[list[list[float]], list[list[float]]] = ([], [])
    for _ in range(ROUNDS):
        for side, run in enumerate((ours, peer)):
            rounds[side].append(watch.times(run, counts[side]))
        if sum(rounds[0][-1]) > 1e3 * BURST * 10:
            # Seconds for one turn: the others would say the same.
            break
    return Result(case, rounds[0], rounds[1])


class Deadline:
    """So many seconds from now on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._end = clock, clock() + seconds

    @property
    def left(self) -> float:
        return max(self._end - self._clock(), 0.0)
