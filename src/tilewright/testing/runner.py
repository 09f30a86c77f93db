"""Times of a module's entry, here or on a machine behind a tracker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.contrib.tar import tar as pack
from tilewright.meta_schedule.runner import EvaluatorConfig, RPCConfig
from tilewright.runtime import NDArray, device, load_module
from tilewright.runtime.ndarray import array

if TYPE_CHECKING:
    from tilewright.runtime import Module

Export = Callable[["Module", str], str]


def _export(mod: Module, folder: str, export_func: Export | str, output_format: str | None) -> str:
    """The path of a module's artefact in a folder. export_func: "tar" (the default form), "ndk", or f(module, folder)."""
    if callable(export_func):
        return export_func(mod, folder)
    if export_func not in ("tar", "ndk"):
        raise ValueError(f'export_func must be "tar", "ndk" or a function, but is {export_func!r}')
    path = os.path.join(folder, f"artifact.{output_format or ('tar' if export_func == 'tar' else 'so')}")
    if export_func == "ndk":
        from tilewright.contrib import ndk

        mod.export_library(path, fcompile=ndk.create_shared)
    else:
        mod.export_library(path, fcompile=pack)
    return path


def _evaluated(mod: Module, dev: Any, args: Sequence[Any], config: EvaluatorConfig | None) -> Any:
    settings = config or EvaluatorConfig(number=10, repeat=5, min_repeat_ms=0, enable_cpu_cache_flush=False)
    evaluate = mod.time_evaluator(
        mod.entry_name,
        dev,
        number=settings.number,
        repeat=settings.repeat,
        min_repeat_ms=settings.min_repeat_ms,
        f_preproc="cache_flush_cpu_non_first_arg" if settings.enable_cpu_cache_flush else "",
    )
    return evaluate(*args)


def _on(dev: Any, args: Sequence[Any] | Mapping[Any, Any]) -> list[Any]:
    values = args.values() if isinstance(args, Mapping) else args
    return [
        array(a.numpy() if isinstance(a, NDArray) else a, dev) if isinstance(a, (NDArray, np.ndarray)) else a
        for a in values
    ]


def local_run(
    mod: Module,
    device_type: str,
    args: Sequence[Any] | Mapping[Any, Any],
    evaluator_config: EvaluatorConfig | None = None,
    export_func: Export | str = "tar",
    output_format: str | None = None,
) -> Any:
    """The times (BenchmarkResult) of a built module on a device of this machine, after it was exported and loaded. args: arrays and
    numbers of the entry."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_module(_export(mod, folder, export_func, output_format))
        dev = device(device_type, 0)
        return _evaluated(loaded, dev, _on(dev, args), evaluator_config)


def rpc_run(
    mod: Module,
    device_type: str,
    args: Sequence[Any] | Mapping[Any, Any],
    evaluator_config: EvaluatorConfig | None = None,
    rpc_config: RPCConfig | None = None,
    export_func: Export | str = "tar",
    output_format: str | None = None,
) -> Any:
    """The times of a built module on a machine that a tracker lends. rpc_config: the tracker and the key of machines; by default as the
    environment says (TVM_TRACKER_HOST, ...)."""
    config = RPCConfig._normalized(rpc_config)
    with tempfile.TemporaryDirectory() as folder:
        path = _export(mod, folder, export_func, output_format)
        session = config.connect_server()
        session.upload(path)
        remote = session.load_module(os.path.basename(path))
        dev = session.device(device_type, 0)
        try:
            return _evaluated(remote, dev, _on(dev, args), evaluator_config)
        finally:
            session.remove(os.path.basename(path))


__all__ = ["local_run", "rpc_run"]
