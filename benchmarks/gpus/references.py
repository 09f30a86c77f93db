"""The cases as PyTorch computes them with the libraries in its wheel, and the inputs that both sides share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpus.cases import Case
from benchmarks.gpus.programs import inputs, model_name, weights_of

TOLERANCE = {"float16": 2e-2, "bfloat16": 3e-2, "float32": 1e-3}
"""Largest difference of results, as a share of the largest value."""
OF_MODELS = 6e-2


def tensors(case: Case, place: str = "cuda") -> dict[str, Any]:
    """A case's inputs on a device: normal numbers, the same in every run. Weights are those that were compiled in."""
    import torch

    draw = torch.Generator(device=place).manual_seed(0)
    kind, known = getattr(torch, case.dtype), weights_of(case)
    return {
        name: torch.from_numpy(known[name]).to(place, kind)
        if name in known
        else torch.randn(shape, generator=draw, device=place, dtype=torch.float32).to(kind)
        for name, shape in inputs(case).items()
    }


def reference(case: Case, given: dict[str, Any]) -> Callable[[], Any]:
    """A function that computes a case by PyTorch, in its fastest layout."""
    import torch
    import torch.nn.functional as F

    x = given.get("x")
    if case.kind == "gemm":
        return lambda: torch.matmul(given["a"], given["b"])
    if case.kind in ("conv2d", "depthwise"):
        filters = given["w"].permute(*((3, 2, 0, 1) if case.kind == "conv2d" else (2, 3, 0, 1)))
        image, kernel = x.permute(0, 3, 1, 2), filters.contiguous(memory_format=torch.channels_last)
        stride, padding = case.sizes["stride"], case.sizes["kernel"] // 2
        groups = x.shape[3] if case.kind == "depthwise" else 1
        return lambda: F.conv2d(image, kernel, stride=stride, padding=padding, groups=groups)
    if case.kind == "attention":
        causal, grouped = bool(case.sizes["causal"]), case.sizes["groups"] != case.sizes["heads"]
        q, k, v = given["q"], given["k"], given["v"]
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    last = tuple(x.shape[-1:])
    rules: dict[str, Callable[[], Any]] = {
        "softmax": lambda: F.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, last, given["w"], given["w_bias"], 1e-5),
        "rms_norm": lambda: F.rms_norm(x, last, given["w"], 1e-5),
        "add": lambda: x + given["y"],
        "gelu": lambda: F.gelu(x),
        "relu": lambda: F.relu(x),
        "row_sum": lambda: x.sum(1),
        "transpose": lambda: x.t().contiguous(),
    }
    return rules[case.kind]


def comparable(case: Case, result: Any) -> Any:
    """PyTorch's result in the layout of ours."""
    return result.permute(0, 2, 3, 1) if case.kind in ("conv2d", "depthwise") else result


def difference(case: Case, ours: Any, theirs: Any) -> str:
    """What is wrong with a result of ours; "" if nothing is."""
    import torch

    if ours.shape != theirs.shape:
        return f"the result has the shape {tuple(ours.shape)}, that of torch {tuple(theirs.shape)}"
    limit = OF_MODELS if case.group == "models" else TOLERANCE[case.dtype]
    ours, theirs = ours.to(torch.float32), theirs.to(torch.float32)
    largest = float(theirs.abs().max()) or 1.0
    found = float((ours - theirs).abs().max()) / largest
    return "" if found <= limit else f"wrong result: differs by {found:.2g} of the largest value, more than {limit}"


def compiled_model(case: Case) -> tuple[Callable[[], Any], dict[str, np.ndarray]]:
    """(a function that runs a model by torch.compile(mode="max-autotune"), the inputs of the model by name)."""
    import torch

    from benchmarks import models

    name = model_name(case)
    net, _, names = models.torch_module(name)
    arrays = models.inputs(name)
    net = net.eval().to(getattr(torch, case.dtype)).cuda()
    if "pixel_values" in arrays:
        net = net.to(memory_format=torch.channels_last)
    given = []
    for key in names:
        value = torch.from_numpy(arrays[key]).cuda()
        given.append(value.to(getattr(torch, case.dtype)) if value.is_floating_point() else value)
    made = torch.compile(net, mode="max-autotune")

    def run() -> Any:
        with torch.no_grad():
            return made(*given)[0]

    run()
    return run, arrays


def tuned_ahead(case: Case) -> str:
    """Compiles a model by torch.compile into Inductor's cache, in a process of its own; returns what went wrong, or ""."""
    try:
        compiled_model(case)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""
