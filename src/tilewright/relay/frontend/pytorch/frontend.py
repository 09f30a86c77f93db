"""from_pytorch: the entry of the PyTorch importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import IRModule, PrimExpr
from tilewright.relay.frontend.pytorch.dtypes import dtype_name, torch_dtype
from tilewright.relay.frontend.pytorch.exported import ExportedImporter
from tilewright.relay.frontend.pytorch.importer import Custom
from tilewright.relay.frontend.pytorch.value import Argument
from tilewright.support.errors import ModelError, TVMError

if TYPE_CHECKING:
    import torch

DYNAMIC_EXAMPLE = 4
"""The extent of dynamic axes in the example with which a module is exported."""


def from_pytorch(
    script_module: Any,
    input_infos: Any = None,
    custom_convert_map: Custom | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: str | None = None,
    preserve_pytorch_scopes: bool = False,
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a PyTorch model.

    script_module: a torch.export.ExportedProgram, a TorchScript module (traced or scripted), or a torch.nn.Module or
    torch.fx.GraphModule, which is exported here. input_infos: (name, shape) or (name, (shape, dtype)) for each input; for modules
    also example tensors (a tuple, or a dictionary by parameter name). An exported program needs none. A number as an input of a script has
    the shape (), or its value instead: ("rate", 16000). In shapes, None, -1 and
    relay.Any() make an axis dynamic. A name does, too; all axes with this name have the same size. custom_convert_map: converters
    f(inputs, input_types) -> relay expression by operator name ("aten::relu"). default_dtype: for inputs and operators without a
    declared one. use_parser_friendly_name: dots in names become underscores. keep_quantized_weight: quantised weights stay
    integers among the parameters. export_renamed_c_graph_path: writes the imported graph as text to this path.
    preserve_pytorch_scopes: spans of calls from TorchScript begin with the module that they are in, as a trace writes it.

    Parameters of main are the inputs, then the weights. The dictionary holds the weights' values (not copied). Outputs are the model's
    own, then the buffers that it writes. Raises ModelError (arguments that do not fit) and OpNotImplemented, which lists all unsupported
    parts.
    """
    try:
        import torch
    except ImportError:
        raise ModelError("from_pytorch needs PyTorch: pip install 'tilewright[torch]'") from None
    if isinstance(script_module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        from tilewright.relay.frontend.pytorch.torchscript import import_script

        infos = _named(input_infos, default_dtype, "a TorchScript module", numbers=True)
        return import_script(
            script_module,
            infos,
            custom_convert_map,
            default_dtype,
            use_parser_friendly_name,
            export_renamed_c_graph_path,
            keep_quantized_weight,
            preserve_pytorch_scopes,
        )
    names: Sequence[tuple[str, Any]] | None = None
    if isinstance(script_module, torch.export.ExportedProgram):
        program = script_module
        if input_infos:
            names = [(n, s) for n, s, _ in _named(input_infos, default_dtype, "an exported program")]
    elif isinstance(script_module, torch.nn.Module):
        program, names = _exported(script_module, input_infos, default_dtype)
    else:
        raise TypeError(
            "from_pytorch takes a torch.export.ExportedProgram, a torch.nn.Module, a torch.fx.GraphModule or a TorchScript module, but was"
            f" given {type(script_module).__name__}"
        )
    title = f"model {type(script_module).__name__}" if program is not script_module else "the exported program"
    importer = ExportedImporter(title, default_dtype, custom_convert_map, use_parser_friendly_name)
    importer.keep_quantized = keep_quantized_weight
    if export_renamed_c_graph_path:
        Path(export_renamed_c_graph_path).write_text(str(program.graph) + "\n")
    return importer.run(program, names)


def _named(infos: Any, default_dtype: str, what: str, numbers: bool = False) -> list[tuple[str, Any, str]]:
    """(name, shape, dtype) of each entry. `numbers`: a number may replace a shape. Raises ModelError for other forms."""
    if not infos:
        raise ModelError(
            f"{what} needs input_infos: a list of (name, shape) or (name, (shape, dtype)), one for each input"
        )
    result: list[tuple[str, Any, str]] = []
    for entry in infos:
        if not isinstance(entry, (tuple, list)) or len(entry) != 2 or not isinstance(entry[0], str):
            raise ModelError(
                f"an entry of input_infos is {entry!r}; each must be (name, shape) or (name, (shape, dtype)), as in"
                ' [("x", (1, 3, 224, 224))]'
            )
        name, shape = entry
        if isinstance(shape, (tuple, list)) and len(shape) == 2 and isinstance(shape[0], (tuple, list)):
            result.append((name, list(shape[0]), dtype_name(shape[1])))
        elif isinstance(shape, (tuple, list)):
            result.append((name, list(shape), default_dtype))
        elif numbers and isinstance(shape, (bool, int, float, np.number, np.bool_)):
            result.append((name, shape, default_dtype))
        else:
            raise ModelError(
                f"the shape of the input {name!r} in input_infos is {shape!r}; it must be a tuple of extents"
            )
    return result


def _exported(module: torch.nn.Module, infos: Any, default_dtype: str) -> tuple[Any, Sequence[tuple[str, Any]] | None]:
    """(exported program, names of its inputs or None) of a module."""
    import torch

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Argument] = {}
    names: list[tuple[str, Any]] | None = None
    dynamic: Any = None
    if isinstance(infos, torch.Tensor):
        args = (infos,)
    elif isinstance(infos, Mapping):
        kwargs = dict(infos)
    elif infos and not any([isinstance(i, (tuple, list)) and len(i) == 2 and isinstance(i[0], str) for i in infos]):
        args = tuple(infos)
    elif infos:
        named = _named(infos, default_dtype, "a module")
        names = [(n, None) for n, _, _ in named]
        args = tuple([_example(shape, dtype) for _, shape, dtype in named])
        dynamic = _dynamic_axes([shape for _, shape, _ in named])
    else:
        raise ModelError(
            "a module needs example inputs to be exported: a tuple of tensors, a dictionary of them by parameter name, or a list of"
            " (name, shape)"
        )
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False), names
    except TVMError:
        raise
    except Exception as error:
        raise ModelError(
            f"torch.export does not take this module ({type(error).__name__}: {_first_lines(error)}). Export it yourself with"
            " torch.export.export(module, args), whose messages say how, and give the ExportedProgram; or trace it:"
            " torch.jit.trace(module, args)"
        ) from error
    finally:
        module.train(training)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:400]


def _is_dynamic(d: Any) -> bool:
    return d is None or isinstance(d, (str, PrimExpr)) or isinstance(d, (int, np.integer)) and bool(d < 0)


def _example(shape: Sequence[Any], dtype: str) -> Any:
    import torch

    return torch.zeros([DYNAMIC_EXAMPLE if _is_dynamic(d) else int(d) for d in shape], dtype=torch_dtype(dtype))


def _dynamic_axes(shapes: Sequence[Sequence[Any]]) -> Any:
    import torch

    if not any([_is_dynamic(d) for shape in shapes for d in shape]):
        return None
    shared = {
        str(d): torch.export.Dim(str(d))
        for shape in shapes
        for d in shape
        if isinstance(d, (str, PrimExpr)) and str(d).isidentifier()
    }

    def axis(d: Any) -> Any:
        return shared.get(str(d), torch.export.Dim.DYNAMIC) if _is_dynamic(d) else None

    return tuple([{k: axis(d) for k, d in enumerate(shape) if _is_dynamic(d)} or None for shape in shapes])
