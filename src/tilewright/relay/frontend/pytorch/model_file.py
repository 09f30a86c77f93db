"""PyTorch's files for the command line: exported programs (.pt2) and TorchScript (.pt, .ts), with PyTorch as the reference."""

from __future__ import annotations

import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.ir import IRModule
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.pytorch import compatibility
from tilewright.relay.frontend.pytorch.dtypes import dtype_name
from tilewright.relay.frontend.pytorch.frontend import from_pytorch
from tilewright.relay.transform.precision.fake_quantization import FakeQuantizationToInteger
from tilewright.support.errors import ModelError, said
from tilewright.support.pinned import Pinned

if TYPE_CHECKING:
    import torch

SILENT = {
    "prim::Constant",
    "prim::GetAttr",
    "prim::ListConstruct",
    "prim::TupleConstruct",
    "prim::ListUnpack",
    "prim::TupleUnpack",
}
"""Nodes of TorchScript that only hold or pass on values."""

OLD_WEIGHTS = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The first bytes of torch.save's files before 1.6, or with _use_new_zipfile_serialization=False: the pickled magic number."""
MOST_UNPACKED = 1 << 28
"""The size limit of an archive's compressed parts in bytes: code and debug information; weights are not compressed."""


class ExportedFormat(formats.ModelFormat):
    """A file of torch.export.save."""

    name, title, suffixes, runtimes = "pt2", "PyTorch (torch.export)", (".pt2",), ("torch",)

    def takes(self, path: Path) -> bool:
        """Whether a file is named .pt2, or has that content."""
        return super().takes(path) or contents(path) == self.name

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, Any]]:
        """The module and its weights."""
        program = open_program(path)
        return integers(*from_pytorch(program, _infos(program, shapes)), open_ended=True)

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """The description, with ATen's operators."""
        return survey_program(open_program(path), self.title)

    def reference(self, path: Path, runtime: str, shapes: formats.Shapes) -> formats.Reference:
        """PyTorch's interpreter, which runs node by node."""
        from tilewright.relay.frontend.pytorch.reference import ProgramReference

        return ProgramReference(open_program(path))


class TorchScriptFormat(formats.ModelFormat):
    """A file of torch.jit.save. It lacks the shapes of its inputs, so they must be given."""

    name, title, runtimes = "torchscript", "TorchScript", ("torch",)
    suffixes = (".pt", ".pth", ".ts", ".jit", ".torchscript")

    def takes(self, path: Path) -> bool:
        """Whether a file has one of these suffixes, or that content. Weights (.bin, .ckpt) are taken, too, for a clear error."""
        return super().takes(path) or contents(path) in (self.name, "weights")

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, Any]]:
        """The module and its weights."""
        return self.load_fixed(path, shapes, {})

    def load_fixed(
        self, path: Path, shapes: formats.Shapes, values: Mapping[str, formats.Array]
    ) -> tuple[IRModule, dict[str, Any]]:
        """The module and its weights. The importer evaluates all values that follow from given numbers."""
        module = open_script(path)
        from tilewright.relay.frontend.pytorch.script_graph import number_dtype, script_inputs

        numbers = {name: number_dtype(value) for name, value in script_inputs(module).items()}
        check_shapes_given(path, numbers, shapes)
        infos: list[tuple[str, Any]] = []
        for name, kind in numbers.items():
            given = shapes.get(name, ())
            if kind is not None and name in values:
                infos.append((name, formats.as_declared(name, values[name], tensor_type((), kind)).item()))
            else:
                named = given.dtype if isinstance(given, Pinned) else ""
                infos.append((name, (tuple(given), named or "float32")))
        mod, params = integers(*from_pytorch(module, infos))
        rest = {name: value for name, value in values.items() if numbers.get(name) is None}
        return (formats.fixed(mod, list(params), rest) if rest else mod), params

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """The description, with the operators of the inlined graph."""
        return survey_script(open_script(path), self.title, shapes)

    def reference(self, path: Path, runtime: str, shapes: formats.Shapes) -> formats.Reference:
        """PyTorch, with additional outputs of the graph."""
        from tilewright.relay.frontend.pytorch.reference import ScriptReference

        return ScriptReference(open_script(path))


def check_shapes_given(path: Path, numbers: Mapping[str, str | None], shapes: formats.Shapes) -> None:
    """Raises ModelError unless there are shapes for exactly the tensor inputs. numbers: see `number_dtype`."""
    unknown = [n for n in shapes if n not in numbers]
    if unknown:
        raise ModelError(
            f"{path}: the model has no input {', '.join(unknown)}; its inputs are {', '.join(numbers) or 'none'}"
        )
    missing = [n for n, kind in numbers.items() if kind is None and n not in shapes]
    if missing:
        example = " ".join([f"--shape {n}=1,3,224,224" for n in missing])
        raise ModelError(
            f"{path}: TorchScript does not say the shapes of its inputs, and none is given for {', '.join(missing)}. Give them: {example};"
            f" with a type where it is not float32: --shape {missing[0]}=1,16:int64"
        )


def integers(mod: IRModule, params: dict[str, Any], open_ended: bool = False) -> tuple[IRModule, dict[str, Any]]:
    """Converts float32 operators between quantised tensors to integer operators. `open_ended`: also products without a quantised result,
    as PT2E writes them."""
    made = FakeQuantizationToInteger(use_qat=open_ended)(mod)
    if made is not mod:
        compatibility.QUANTISED.seen("main")
    return made, params


def contents(path: Path) -> str:
    """The content of a PyTorch file: "pt2", "torchscript", "weights", or "" for another file."""
    try:
        with path.open("rb") as file:
            if file.read(len(OLD_WEIGHTS)) == OLD_WEIGHTS:
                return "weights"
        with zipfile.ZipFile(path) as archive:
            names = [n.partition("/")[2] or n for n in archive.namelist()]
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return ""
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return "pt2"
    if any([n.startswith("code/") for n in names]):
        return "torchscript"
    return "weights" if "data.pkl" in names else ""


def checked_archive(path: Path, wanted: str, made_by: str) -> None:
    """Raises ModelError for a damaged archive, or one of other content. PyTorch's own readers do not check
    it."""
    held = contents(path)
    if not held:
        raise ModelError(
            f"{path}: this is not a file of {made_by}, or a truncated one: it cannot be read as an archive. Save or copy it again"
        )
    if held == "weights":
        raise ModelError(
            f"{path}: this file holds weights (or a pickled module), not a program that can be imported without the model's Python"
            " code. Load it there and save torch.export.export(model, args) with torch.export.save"
        )
    if held != wanted:
        other = {"pt2": "an exported program (.pt2)", "torchscript": "TorchScript (.pt, .jit)"}[held]
        raise ModelError(f"{path}: this file holds {other}, not what {made_by} writes. Give it the ending of its kind")
    damaged = damage(path)
    if damaged:
        raise ModelError(f"{path}: the file is damaged: {damaged}. Save or copy it again")


def damage(path: Path) -> str:
    """The fault of an archive; "" if all its parts have their checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum([i.file_size for i in archive.infolist() if i.compress_type != zipfile.ZIP_STORED])
            if unpacked > MOST_UNPACKED:
                return f"its compressed parts claim {unpacked} bytes, and no model's code has more than {MOST_UNPACKED}"
            changed = archive.testzip()
    except Exception as error:  # zipfile and zlib raise many kinds of exceptions
        return said(error)
    return f"{changed} does not have the bytes that were written" if changed else ""


def open_program(path: Path) -> Any:
    """The ExportedProgram of a file. Raises ModelError."""
    torch = torch_module()
    checked_archive(path, "pt2", "torch.export.save")
    try:
        return torch.export.load(str(path))
    except Exception as error:  # its JSON readers raise any exception
        raise ModelError(
            f"{path}: PyTorch {torch.__version__} cannot load this exported program ({_short(error)}). Export it again"
        ) from error


def open_script(path: Path) -> Any:
    """The ScriptModule of a file. Raises ModelError."""
    torch = torch_module()
    checked_archive(path, "torchscript", "torch.jit.save")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # errors of TorchScript itself
            module = torch.jit.load(str(path), map_location="cpu").eval()
    except Exception as error:
        raise ModelError(
            f"{path}: PyTorch {torch.__version__} cannot load this TorchScript ({_short(error)}). Save it again"
        ) from error
    if not hasattr(module, "forward"):
        raise ModelError(f"{path}: its module has no method forward, so there is nothing to run. Save the whole model")
    need_whole_storages(path, module.state_dict())
    return module


def need_whole_storages(path: Path, tensors: Mapping[str, Any]) -> None:
    """Raises ModelError if a tensor has more bytes than its storage in the archive. PyTorch itself would read past the end."""
    with zipfile.ZipFile(path) as archive:
        sizes = Counter([i.file_size for i in archive.infolist()])
    seen = set()
    for name, tensor in tensors.items():
        try:
            storage = tensor.untyped_storage()
            place = storage.data_ptr()
        except RuntimeError as error:  # tensors of kinds without memory
            raise ModelError(
                f"{path}: the file is damaged: its tensor {name!r} has no values ({_short(error)}). Save or copy it again"
            ) from None
        if place in seen:
            continue
        seen.add(place)
        if sizes[storage.nbytes()] == 0:
            raise ModelError(
                f"{path}: the file is damaged: its tensor {name!r} claims {storage.nbytes()} bytes, and no part of the file has so"
                " many. Save or copy it again"
            )
        sizes[storage.nbytes()] -= 1


def torch_module() -> Any:
    """PyTorch. Raises ModelError without it."""
    try:
        import torch
        import torch.export
    except ImportError:
        raise ModelError("files of PyTorch need PyTorch: pip install 'tilewright[torch]'") from None
    return torch


def _short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:300]}"


def _infos(program: torch.export.ExportedProgram, shapes: formats.Shapes) -> Any:
    """input_infos of an exported program: pinned shapes, or those of the export."""
    if not shapes:
        return None
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    unknown = [n for n in shapes if n not in names]
    if unknown:
        raise ModelError(f"the exported program has no input {', '.join(unknown)}; its inputs are {', '.join(names)}")
    fakes = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    return [
        (n, tuple(shapes[n]) if n in shapes else tuple([d if isinstance(d, int) else -1 for d in fakes[n].shape]))
        for n in names
        if hasattr(fakes.get(n), "shape")
    ]


def _tensor_info(name: str, value: Any) -> formats.TensorInfo:
    return formats.TensorInfo(name, dtype_name(value.dtype), [d if isinstance(d, int) else str(d) for d in value.shape])


def survey_program(program: torch.export.ExportedProgram, title: str) -> formats.Survey:
    """The description of an exported program."""
    import torch

    from tilewright.relay.frontend.pytorch.exported import operator_name
    from tilewright.relay.frontend.pytorch.higher_order import higher_order

    operators: dict[str, list[str]] = {}
    fakes: dict[str, Any] = {}
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if module is program.graph_module:
                fakes[node.name] = node.meta.get("val")
            if node.op != "call_function":
                continue
            named = operator_name(node.target)
            if named is None and not higher_order(node.target):
                continue
            text = f"{named[0]}.{named[1]}".removesuffix(".") if named else f"higher_order::{higher_order(node.target)}"
            operators.setdefault(text, []).append(node.name)
    signature = program.graph_signature
    inputs, weights = [], []
    held = {**program.constants, **program.state_dict}
    for spec in signature.input_specs:
        kind, name = spec.kind.name, getattr(spec.arg, "name", "")
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR") and hasattr(held.get(spec.target), "dtype"):
            weights.append(_tensor_info(spec.target, held[spec.target]))
        elif kind == "USER_INPUT" and hasattr(fakes.get(name), "dtype"):
            inputs.append(_tensor_info(name, fakes[name]))
    outputs = [
        _tensor_info(s.arg.name, fakes[s.arg.name])
        for s in signature.output_specs
        if hasattr(fakes.get(getattr(s.arg, "name", "")), "dtype")
    ]
    versions = getattr(program, "verifiers", None)
    dialects = ", ".join(sorted({v.dialect for v in versions})) if versions else ""
    return formats.Survey(title, f"dialect {dialects}" if dialects else "", operators, inputs, outputs, weights)


def survey_script(module: torch.jit.ScriptModule, title: str, shapes: formats.Shapes) -> formats.Survey:
    """The description of a script."""
    from tilewright.relay.frontend.pytorch.script_graph import inlined, nodes_of, number_dtype, place_of, script_inputs

    graph = inlined(module)
    operators: dict[str, list[str]] = {}
    for node in nodes_of(graph):
        if node.kind() not in SILENT:
            operators.setdefault(node.kind(), []).append(place_of(node))
    inputs = []
    for name, value in script_inputs(module).items():
        kind = number_dtype(value)
        if kind is not None:
            inputs.append(formats.TensorInfo(name, kind, []))
            continue
        given = shapes.get(name)
        dtype = given.dtype if isinstance(given, Pinned) else ""
        inputs.append(formats.TensorInfo(name, dtype or "float32", None if given is None else list(given)))
    outputs = [formats.TensorInfo(v.debugName(), "", None) for v in graph.outputs()]
    weights = [_tensor_info(n, t) for n, t in module.state_dict().items() if hasattr(t, "dtype")]
    return formats.Survey(title, "", operators, inputs, outputs, weights)


formats.register_format(ExportedFormat())
formats.register_format(TorchScriptFormat())
