"""Reports of profiled runs: calls with their metrics, totals by device, the configuration; as table, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tilewright.runtime import _ffi
from tilewright.runtime.device import DEVICES_OF_A_SESSION, Device


class Metric:
    """A number with its unit; `key` names it in JSON."""

    key: ClassVar[str]
    summed: ClassVar[bool] = True
    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.value == self.value

    def __hash__(self) -> int:
        return hash((self.key, self.value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def text(self) -> str:
        """As a cell of the table."""
        return f"{self.value:,.2f}"


class Duration(Metric):
    """A time, in microseconds."""

    key = "microseconds"
    __slots__ = ()

    @property
    def microseconds(self) -> float:
        """The time."""
        return self.value


class Percent(Metric):
    """A share, from 0 to 100."""

    key = "percent"
    __slots__ = ()

    @property
    def percent(self) -> float:
        """The share."""
        return self.value


class Count(Metric):
    """How many."""

    key = "count"
    __slots__ = ()

    def __init__(self, value: float) -> None:
        super().__init__(int(value))

    def text(self) -> str:
        return f"{self.value:,}"


class Ratio(Metric):
    """One number over another; ratios of several calls have no sum."""

    key = "ratio"
    summed = False
    __slots__ = ()

    @property
    def ratio(self) -> float:
        """The number."""
        return self.value


METRICS: dict[str, type[Metric]] = {m.key: m for m in (Duration, Percent, Count, Ratio)}
Call = Mapping[str, Any]
"""Metrics, strings and numbers of one call, or of a device, by column."""
DeviceMetrics = dict[str, Call]
"""Totals by the name of a device: "cpu0"."""

FIRST = ("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Hash")


class Report:
    """The measurements of one run.

    calls: metrics of each call, in order; device_metrics: totals by device; configuration: what was measured how.
    `table()` is for people, `csv()` and `json()` for programs.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        device_metrics: Mapping[str, Call],
        configuration: Mapping[str, Any] | None = None,
    ) -> None:
        self.calls: tuple[dict[str, Any], ...] = tuple([dict(c) for c in calls])
        self.device_metrics: dict[str, dict[str, Any]] = {k: dict(v) for k, v in device_metrics.items()}
        self.configuration: dict[str, Any] = dict(configuration or {})

    def columns(self) -> list[str]:
        """Names of all columns, those that people look for first."""
        found = dict.fromkeys([k for c in self.calls for k in c])
        return [k for k in FIRST if k in found] + [k for k in found if k not in FIRST]

    def csv(self) -> str:
        """A line of names, then a line for each call, in order."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = self.columns()
        writer.writerow(columns)
        for call in self.calls:
            writer.writerow([_plain(call.get(k, "")) for k in columns])
        return out.getvalue()

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """The calls as a table: `sort` puts the longest first, `aggregate` makes calls of one function with the same shapes one row,
        `col_sums` adds the sums of the columns and the totals of the devices."""
        columns = self.columns()
        rows = list(_aggregated(self.calls)) if aggregate else [dict(c) for c in self.calls]
        if sort:
            rows.sort(key=lambda r: -_number(r.get("Duration (us)")))
        cells = [[_cell(r.get(k, "")) for k in columns] for r in rows]
        if col_sums:
            cells.append(["----------"] + [""] * (len(columns) - 1))
            sums: dict[str, Any] = _sum(rows, columns)
            sums["Name"] = "Sum"
            cells.append([_cell(sums.get(k, "")) for k in columns])
            for device, metrics in sorted(self.device_metrics.items()):
                total = {**metrics, "Name": "Total", "Device": device}
                cells.append([_cell(total.get(k, "")) for k in columns])
        lines = _aligned([columns, *cells], [all([_is_number(r.get(k, 0)) for r in rows]) for k in columns])
        if self.configuration:
            lines += ["", "Configuration", "-------------"]
            lines += [f"{k}: {_cell(v)}" for k, v in self.configuration.items()]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """The whole report as JSON text: {"calls": [...], "device_metrics": {...}, "configuration": {...}}."""
        return json.dumps(
            {
                "calls": [_encoded(c) for c in self.calls],
                "device_metrics": {k: _encoded(v) for k, v in self.device_metrics.items()},
                "configuration": _encoded(self.configuration),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `json` wrote. Raises ValueError for other text."""
        data = json.loads(text)
        if not isinstance(data, dict) or "calls" not in data:
            raise ValueError("this text is not a report: it has no `calls`")
        devices = {k: _decoded(v) for k, v in data.get("device_metrics", {}).items()}
        return cls([_decoded(c) for c in data["calls"]], devices, _decoded(data.get("configuration", {})))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Report({len(self.calls)} calls)"


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Metric) else value


def _number(value: Any) -> float:
    value = _plain(value)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (Metric, int, float))


def _cell(value: Any) -> str:
    if isinstance(value, Metric):
        return value.text()
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _sum(rows: Sequence[Call], columns: Sequence[str]) -> dict[str, Any]:
    """Sums of the metrics of these columns."""
    sums: dict[str, Any] = {}
    for k in columns:
        values = [r[k] for r in rows if k in r]
        if values and all([isinstance(v, Metric) and v.summed for v in values]):
            sums[k] = type(values[0])(sum([v.value for v in values]))
    return sums


def _aggregated(calls: Sequence[Call]) -> list[dict[str, Any]]:
    groups: dict[Any, list[Call]] = {}
    for call in calls:
        key = tuple([(k, v) for k, v in call.items() if not isinstance(v, Metric)])
        groups.setdefault(key, []).append(call)
    return [{**same[0], **_sum(same, list(same[0]))} for same in groups.values()]


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    widths = [max([len(r[i]) for r in rows]) for i in range(len(rows[0]))]
    return [
        "  ".join([c.rjust(w) if at else c.ljust(w) for c, w, at in zip(r, widths, right, strict=True)]).rstrip()
        for r in rows
    ]


def _encoded(call: Call) -> dict[str, Any]:
    return {k: {v.key: v.value} if isinstance(v, Metric) else {"string": str(v)} for k, v in call.items()}


def _decoded(call: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for k, v in call.items():
        ((kind, value),) = v.items()
        found[k] = METRICS[kind](value) if kind in METRICS else value
    return found


class DeviceWrapper:
    """A device, as collectors are given it."""

    def __init__(self, dev: _ffi.Device) -> None:
        self.device = dev


class MetricCollector:
    """Collects metrics of its own around each call; subclasses override `start` and `stop`."""

    def init(self, devices: Sequence[DeviceWrapper]) -> None:
        """Called once, before the run."""

    def start(self, device: _ffi.Device) -> Any:
        """Called before a call; what it returns is handed to `stop`. None: this device is not watched."""
        return None

    def stop(self, started: Any) -> Mapping[str, Any]:
        """Called after the call: its metrics, by the names of their columns."""
        return {}


def device_label(device: _ffi.Device) -> str:
    """A device as reports name it: cpu0; for one of a session, as the other side would."""
    kind = device.device_type % DEVICES_OF_A_SESSION
    return f"{Device.DEVICE_TYPE_TO_NAME.get(kind, kind)}{device.device_id}"


def collect(
    run: Callable[[], Any], device: _ffi.Device, collectors: Sequence[MetricCollector]
) -> tuple[float, dict[str, Any]]:
    """Seconds of a call, and what the collectors say of it."""
    started = [(c, c.start(device)) for c in collectors]
    begin = time.perf_counter()
    run()
    seconds = time.perf_counter() - begin
    found: dict[str, Any] = {}
    for collector, state in reversed(started):
        if state is not None:
            found.update(collector.stop(state))
    return seconds, found


def tuned_kernels(library: Any) -> dict[str, Any]:
    """The kernels of a library that come from records of tuning: their columns of a report. "Tuned" is the time of the record over that of
    the untuned kernel, as the tuner measured them; "yes" where the latter is not known."""
    try:
        facts = json.loads(library["get_metadata"]())
    except AttributeError:
        return {}
    records = {k["name"]: k["record"] for k in facts.get("kernels", ()) if "record" in k}
    return {
        name: {"Tuned": Ratio(r["seconds"] / r["untuned"]) if r["untuned"] else "yes"} for name, r in records.items()
    }


def make_report(
    calls: Sequence[dict[str, Any]], seconds: Mapping[str, float], configuration: Mapping[str, Any]
) -> Report:
    """A report of calls that have a duration and a device; `seconds` are totals by device, from which shares are computed."""
    total = sum(seconds.values()) or 1e-12
    for call in calls:
        call["Percent"] = Percent(call["Duration (us)"].value / (total * 1e6) * 100)
    devices: dict[str, Call] = {}
    for name, spent in seconds.items():
        of_device = [c for c in calls if c["Device"] == name]
        devices[name] = {
            "Duration (us)": Duration(spent * 1e6),
            "Percent": Percent(spent / total * 100),
            "Count": Count(len(of_device)),
            "Device": name,
        }
    tuned = [c for c in calls if "Tuned" in c]
    more = {"Percent in tuned kernels": Percent(sum([c["Percent"].value for c in tuned]))} if tuned else {}
    return Report(calls, devices, {**configuration, **more})


def profile_function(
    mod: Any,
    dev: _ffi.Device,
    collectors: Sequence[MetricCollector],
    func_name: str | None = None,
    warmup_iters: int = 10,
) -> Callable[..., dict[str, Any]]:
    """A function that runs `mod[func_name]` on its arguments, after `warmup_iters` runs, and returns what the collectors say
    of it and its "Duration (us)"."""
    name = func_name or mod.entry_name
    function = mod.entry_func if name == mod.entry_name else mod[name]

    def profiled(*args: Any) -> dict[str, Any]:
        for c in collectors:
            c.init([DeviceWrapper(dev)])
        for _ in range(warmup_iters):
            function(*args)
        seconds, found = collect(lambda: function(*args), dev, collectors)
        return {"Duration (us)": Duration(seconds * 1e6), **found}

    return profiled


__all__ = [
    "Count",
    "DeviceMetrics",
    "DeviceWrapper",
    "Duration",
    "MetricCollector",
    "Percent",
    "Ratio",
    "Report",
    "profile_function",
]
