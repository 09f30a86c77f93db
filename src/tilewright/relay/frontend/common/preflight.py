"""Facts about a model file before it is compiled: operators, unsupported parts, inputs, weights, work and memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.backend.compilation import plan_memory
from tilewright.relay.backend.work import CallWork, work_of
from tilewright.relay.frontend.common.compatibility import Found, collected_notes
from tilewright.relay.frontend.common.formats import ModelFormat, Shapes, Survey, format_of, survey_of
from tilewright.relay.frontend.common.unsupported import Problem, problems_of
from tilewright.support.errors import InternalError, OpNotImplemented, TVMError


class OperatorRow:
    """One operator of a model: the number of its nodes, their arithmetic operations (`flops`, without the `uncounted` nodes),
    and whether it is supported."""

    __slots__ = ("count", "flops", "name", "supported", "uncounted")

    def __init__(self, name: str, count: int, supported: bool) -> None:
        self.name, self.count, self.supported = name, count, supported
        self.flops = self.uncounted = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "operator": self.name, "count": self.count, "supported": self.supported, "flops": self.flops,
            "nodes_of_unknown_flops": self.uncounted,
        }  # fmt: skip


class Preflight:
    """The report. survey: the description of the file; problems: unsupported parts (`advice` on all of them), or `fault`: the error of
    the model; notes: special cases of its framework that the importer handled; module: the imported program, or None;
    memory: planned bytes by use, or `why_no_memory`."""

    def __init__(self, path: Path, model_format: ModelFormat, survey: Survey) -> None:
        self.path, self.format, self.survey = path, model_format, survey
        self.problems: list[Problem] = []
        self.fault = ""
        self.advice = ""
        self.notes: Found = {}
        self.module: IRModule | None = None
        self.work: list[CallWork] = []
        self.memory: dict[str, int] = {}
        self.why_no_memory = ""

    @property
    def ok(self) -> bool:
        """Whether the model can be imported."""
        return not self.problems and not self.fault

    @property
    def parameter_bytes(self) -> int:
        """Size of the weights in the file, in bytes."""
        return sum([p.bytes for p in self.survey.parameters])

    @property
    def parameter_types(self) -> dict[str, tuple[int, int]]:
        """Element type -> (number of weights, their bytes), with the largest first."""
        found: dict[str, tuple[int, int]] = {}
        for p in self.survey.parameters:
            count, size = found.get(p.dtype, (0, 0))
            found[p.dtype] = count + 1, size + p.bytes
        return dict(sorted(found.items(), key=lambda item: (-item[1][1], item[0])))

    @property
    def flops(self) -> int:
        """Arithmetic operations of a run, without the uncounted calls."""
        return sum([w.flops or 0 for w in self.work])

    @property
    def uncounted_calls(self) -> int:
        """The number of calls with unknown operation counts: they have dynamic dimensions, or no formula exists."""
        return len([w for w in self.work if w.flops is None])

    def rows(self) -> list[OperatorRow]:
        """The operators, sorted by work, largest first. "(other)" has the work of calls that belong to no node of the model."""
        refused = {p.operator for p in self.problems}
        rows = {
            name: OperatorRow(name, len(nodes), name not in refused) for name, nodes in self.survey.operators.items()
        }
        home = {n: name for name, nodes in self.survey.operators.items() for n in nodes}
        for w in self.work:
            name = home.get(w.node or w.operator, "(other)")
            row = rows.setdefault(name, OperatorRow(name, 0, True))
            row.flops += w.flops or 0
            row.uncounted += w.flops is None
        return sorted(rows.values(), key=lambda r: (r.supported, -r.flops, -r.count, r.name))

    def to_dict(self) -> dict[str, Any]:
        """The whole report as plain values."""
        s = self.survey
        return {
            "model": str(self.path),
            "format": self.format.name,
            "framework": s.framework,
            "version": s.version,
            "supported": self.ok,
            "problems": [p.to_dict() for p in self.problems],
            "fault": self.fault,
            "advice": self.advice,
            "inputs": [i.to_dict() for i in s.inputs],
            "outputs": [o.to_dict() for o in s.outputs],
            "dynamic_inputs": {i.name: [str(i.shape[k]) for k in i.dynamic_axes] for i in s.inputs if i.shape and i.dynamic_axes},
            "operators": [r.to_dict() for r in self.rows()],
            "parameters": {
                "count": len(s.parameters),
                "bytes": self.parameter_bytes,
                "types": {t or "?": {"count": c, "bytes": b} for t, (c, b) in self.parameter_types.items()},
            },
            "flops": self.flops,
            "calls_of_unknown_flops": self.uncounted_calls,
            "memory": self.memory or None,
            "why_no_memory": self.why_no_memory,
            "notes": [
                {"framework": q.framework, "key": q.key, "text": q.text, "places": list(places)}
                for q, places in self.notes.items()
            ],
        }  # fmt: skip


def unread(path: Path, fault: str) -> dict[str, Any]:
    """The plain values of a report on an unreadable file."""
    return {"model": str(path), "supported": False, "problems": [], "fault": fault}


def preflight(path: Path, shapes: Shapes, target: Any = "llvm") -> Preflight:
    """Describes and imports a model file, without compiling kernels. Raises TVMError for an unreadable file."""
    chosen = format_of(path)
    params: Mapping[str, Any] = {}
    mod: IRModule | None = None
    problems: list[Problem] = []
    fault = advice = ""
    with collected_notes() as notes:
        try:
            mod, params = chosen.load(path, shapes)
        except InternalError:
            raise
        except OpNotImplemented as error:
            problems, advice = problems_of(error), getattr(error, "advice", "")
        except TVMError as error:
            fault = str(error)
    if mod is not None and type(chosen).survey is ModelFormat.survey:
        survey = survey_of(chosen.title, mod, params)
    else:
        try:
            survey = chosen.survey(path, shapes)
        except TVMError:
            if mod is None:
                raise TVMError(fault or "\n  ".join([f"{path}: not supported", *problems, advice]).rstrip()) from None
            survey = survey_of(chosen.title, mod, params)
    report = Preflight(path, chosen, survey)
    report.problems, report.fault, report.advice = problems, fault, advice
    report.notes, report.module = notes, mod
    if mod is not None:
        report.work = work_of(mod)
        report.memory, report.why_no_memory = planned(mod, params, target)
    return report


def planned(mod: IRModule, params: Mapping[str, Any], target: Any) -> tuple[dict[str, int], str]:
    """(bytes by use, or None; the reason if there are none)."""
    try:
        found = plan_memory(mod, target, params).to_dict()
    except InternalError:
        raise
    except TVMError as error:
        return {}, str(error).splitlines()[0]
    return {k: int(v) for k, v in found.items() if isinstance(v, int) and k != "peak_call"}, ""
