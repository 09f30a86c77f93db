"""Sound model files of many kinds, which `damage` spoils: ONNX's own test models, random networks, external data, PyTorch's archives, and
those of `other_model_files`."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.files.other_model_files import write_keras_models, write_tensorflow_models, write_tflite_models
from tests.fuzz.onnx.graphs import draw

GENERATORS = ("convnet", "transformer", "mixture", "residual", "conv", "slices", "resize")
KINDS = ("node", "pt2", "script", "tflite", "tensorflow", "keras", "h5")
MOST_BYTES = 300_000
"""Test models that are larger are left out."""
EDITION = 3
"""Counted up when other files are written."""
CORPUS = Path(__file__).resolve().parents[3] / "build" / "fuzz_models"


@cache
def corpus(whole: bool = True) -> dict[str, list[Path]]:
    """The files by kind ("node": ONNX's own test models, "pt2", "script", "tflite", "tensorflow", "keras", "h5"), made on first use, in a
    process of their own.
    `whole`: also the models of ONNX's tests that must be computed, which takes a while."""
    import onnx

    folder = CORPUS / f"{onnx.__version__}-{EDITION}-{'whole' if whole else 'few'}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent))
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    write_node_models(fresh, whole)
                    write_torch_models(fresh)
                    write_tflite_models(fresh, whole)
                    write_tensorflow_models(fresh)
                    write_keras_models(fresh)
                status = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(status)
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError("the models to damage could not be made")
        try:
            fresh.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(fresh)
    return {kind: sorted((folder / kind).iterdir()) for kind in KINDS}


def write_node_models(folder: Path, whole: bool) -> None:
    """The small models that ONNX's package holds as files, and (`whole`) one for each of its tests of nodes."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    (folder / "node").mkdir()
    for case in collect_testcases(None) if whole else ():
        data = case.model.SerializeToString() if case.model is not None else b""
        if 0 < len(data) <= MOST_BYTES:
            (folder / "node" / f"{case.name}.onnx").write_bytes(data)
    held = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(held.glob("*/*/model.onnx")):
        if path.stat().st_size <= MOST_BYTES:
            shutil.copyfile(path, folder / "node" / f"{path.parent.name}.onnx")


def write_torch_models(folder: Path) -> None:
    """Small networks as exported programs and as TorchScript; without PyTorch there are none."""
    for kind in ("pt2", "script"):
        (folder / kind).mkdir()
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, (net, args) in networks().items():
        net.eval()
        torch.export.save(torch.export.export(net, args), folder / "pt2" / f"{name}.pt2")
        torch.jit.save(torch.jit.trace(net, args, check_trace=False), folder / "script" / f"{name}.pt")
    batch = torch.export.Dim("batch", min=2, max=64)
    net, args = networks()["dense"]
    open_program = torch.export.export(net.eval(), args, dynamic_shapes=({0: batch},))
    torch.export.save(open_program, folder / "pt2" / "open.pt2")


def networks() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Nets and their example inputs, by name."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.MultiheadAttention(16, 2, batch_first=True)
            self.norm = nn.LayerNorm(16)

        def forward(self, x: Any) -> Any:
            return self.norm(x + self.one(x, x, x, need_weights=False)[0])

    class Writes(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x.clone()
            y[:, 1:3] = 0
            y += x.transpose(0, 1)
            return torch.cat([y, y.cumsum(0)], 1).sort(dim=1)[0]

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 8)
            self.rnn = nn.LSTM(8, 8, batch_first=True)

        def forward(self, ids: Any) -> Any:
            return self.rnn(self.table(ids))[0].argmax(-1)

    picture, line = torch.randn(2, 3, 8, 8), torch.randn(3, 16)
    return {
        "dense": (nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(-1)), (line,)),
        "picture": (
            nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            (picture,),
        ),
        "attention": (Attention(), (torch.randn(1, 5, 16),)),
        "writes": (Writes(), (torch.randn(4, 4),)),
        "tokens": (Tokens(), (torch.randint(0, 11, (2, 5)),)),
    }


def onnx_model(seed: int, rng: random.Random, files: Sequence[Path], only: bool = False) -> Any:
    """An ONNX model: one of the files, or, where there are none or not `only` they are wanted, a random network."""
    import onnx

    if files and (only or rng.random() < 0.6):
        return onnx.load_from_string(rng.choice(files).read_bytes())
    return draw(seed, rng.choice(GENERATORS))[1].model()


def with_external_data(model: Any, folder: Path) -> Path:
    """The model in a folder, its initializers in a file beside it, unless they are texts or small numbers."""
    from onnx import TensorProto, numpy_helper

    offset = 0
    with (folder / "weights.bin").open("wb") as file:
        for t in model.graph.initializer:
            if t.data_type in (TensorProto.STRING, 0) or not len(t.dims):
                continue
            data = numpy_helper.to_array(t).tobytes()
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                t.ClearField(field)
            t.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", str(offset)), ("length", str(len(data)))):
                t.external_data.add(key=key, value=value)
            file.write(data)
            offset += len(data)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"
