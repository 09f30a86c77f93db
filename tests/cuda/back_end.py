"""Code for the fake driver: kernels are machine code of this CPU, linked to a library that stands for a cubin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.runtime.native import link
from tests.runtime.simulated_back_end import Simulated
from tilewright.codegen.backend import register_back_end, remove_back_end
from tilewright.ir import IRModule
from tilewright.target import Target, register_kind, remove_kind
from tilewright.tir import PrimFunc

KIND = "fake_cuda"


class FakeCuda(Simulated):
    kind, loads = KIND, "cubin"

    def source(self, kernels: IRModule, target: Target) -> str:
        kinds = []
        for func in kernels.functions.values():
            assert isinstance(func, PrimFunc)
            text = "".join("h" if p.dtype.code == "handle" else "n" for p in func.params)
            name = func.attrs["global_symbol"]
            kinds.append(f'@{name}__kinds = constant [{len(text) + 1} x i8] c"{text}\\00"')
        return "\n".join([super().source(kernels, target), *kinds, ""])

    def image(self, text: str, target: Target) -> bytes:
        with TemporaryDirectory() as folder:
            return link(Path(folder), "kernels", super().image(text, target)).read_bytes()


@contextmanager
def fake_target() -> Iterator[Target]:
    """The kind of target, as long as it is used."""
    register_kind(KIND, device="cuda", keys=("cuda",))
    register_back_end(FakeCuda())
    try:
        yield Target(KIND)
    finally:
        remove_back_end(KIND)
        remove_kind(KIND)
