"""The debug executor: nodes one by one, all tensors, files; reports of it and of the virtual machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.executors.models import close, dense_model
from tilewright import relay, runtime
from tilewright.contrib.debugger import debug_executor
from tilewright.relay.backend import Executor
from tilewright.runtime import profiling
from tilewright.runtime.profiler_vm import VirtualMachineProfiler

MOD, PARAMS, X, WANT = dense_model()


@pytest.fixture(params=[None, Executor("graph")], ids=str)
def lib(request: pytest.FixtureRequest) -> Any:
    return relay.build(MOD, "llvm", params=PARAMS, executor=request.param)


def test_run_dumps_everything(lib: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, library, params = lib
    module = debug_executor.create(graph, library, tvm.cpu(0), dump_root=str(tmp_path))
    module.load_params(relay.save_param_dict(params))
    module.run(number=1, x=X)
    for i, want in enumerate(WANT):
        close(module.get_output(i), want)
    folder = tmp_path / "_tvmdbg_device_CPU:0"
    tensors = relay.load_param_dict((folder / "output_tensors.params").read_bytes())
    names = [n["name"] for n in json.loads(graph)["nodes"]]
    assert list(tensors) == [f"{n}:0" for n in names] == list(module.debug_datum.get_output_tensors())
    np.testing.assert_array_equal(tensors["x:0"].numpy(), X)
    close(tensors["fused_nn_softmax:0"], WANT[0])
    assert json.loads((folder / "_tvmdbg_graph_dump.json").read_text()) == json.loads(graph)
    events = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == names
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["Node", "Name", "Ops", "Time(us)", "Time(%)"]
    assert any(line.startswith("fused_nn_softmax") for line in lines) and lines[-1].startswith("Total_time")
    header, rows = module.debug_datum.get_debug_result()
    assert len(header) == len(rows[0]) == 8 and sum(r[3] for r in rows[:-1]) == pytest.approx(100, abs=0.1)
    module.exit()
    assert folder.exists(), "a directory that was given stays"


def test_single_nodes(lib: Any) -> None:
    module = debug_executor.GraphModuleDebug(
        lib["debug_create"]("default", tvm.cpu(0)), [tvm.cpu(0)], lib.get_graph_json()
    )
    module.set_input("x", X)
    hidden = np.maximum(X @ PARAMS["w"].T + PARAMS["b"], 0)
    names = [n["name"] for n in module.nodes]
    dense = names.index("fused_nn_contrib_dense_pack_add_nn_relu")
    close(module.debug_get_output(dense), hidden)
    close(module.debug_get_output(names[dense]), hidden)
    out = tvm.nd.empty((4, 16))
    module.debug_get_output(dense, out)
    close(out, hidden)
    shown = [module.execute_next_node() for _ in names]
    assert shown == list(range(len(names))) and module.execute_next_node() == 0
    close(module.get_output(0), WANT[0])
    module.set_input("x", -X)
    module.execute_node(dense)
    close(module.get_node_output(dense), np.maximum(-X @ PARAMS["w"].T + PARAMS["b"], 0))
    assert module.run_individual_node(0).results == (0.0,) and module.run_individual_node(dense, repeat=2).mean > 0
    times = module.run_individual(number=1, repeat=3)
    assert len(times) == len(names) and all(len(t) == 3 for t in times)
    root = Path(str(module._dump_root))
    assert root.exists()
    module.exit()
    assert not root.exists()


def test_wrong_nodes(lib: Any) -> None:
    module = debug_executor.create(lib.get_graph_json(), lib, tvm.cpu(0))
    with pytest.raises(AttributeError, match=r"Could not find a node named dense in this graph\."):
        module.debug_get_output("dense")
    with pytest.raises(IndexError, match="node 99 is out of range: the graph has 7"):
        module.execute_node(99)
    with pytest.raises(RuntimeError, match=r"Require node index or name only\."):
        module.debug_get_output(1.5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="output 3 is out of range: node `x` has 1"):
        module.get_node_output("x", 3)
    with pytest.raises(ValueError, match="the library has no model|has no model `other`; it has `default`"):
        lib["debug_create"]("other", tvm.cpu(0))
    module.exit()


def test_profile_of_a_graph(lib: Any) -> None:
    module = debug_executor.create(lib.get_graph_json(), lib, tvm.cpu(0))
    report = module.profile(x=X)
    assert {c["Name"] for c in report.calls} == {"fused_nn_contrib_dense_pack_add_nn_relu", "fused_nn_softmax"}
    assert report.calls[1]["Argument Shapes"] == "float32[2, 32], float32[2, 32]"
    assert list(report.device_metrics) == ["cpu0"] and report.configuration["Executor"] == "Graph"
    assert sum(c["Percent"].percent for c in report.calls) == pytest.approx(100)
    module.exit()


class Ticks(profiling.MetricCollector):
    """Counts its calls."""

    def __init__(self) -> None:
        self.devices: list[Any] = []

    def init(self, devices: Any) -> None:
        self.devices = [d.device for d in devices]

    def start(self, device: Any) -> Any:
        return time.perf_counter()

    def stop(self, started: Any) -> dict[str, Any]:
        return {"Ticks": profiling.Count(1), "Rate": profiling.Ratio(0.5)}


def test_collectors(lib: Any) -> None:
    module = debug_executor.create(lib.get_graph_json(), lib, tvm.cpu(0))
    ticks = Ticks()
    report = module.profile(collectors=[ticks], x=X)
    assert [c["Ticks"].value for c in report.calls] == [1, 1] and ticks.devices == [tvm.cpu(0)]
    assert "Ticks" in report.table().splitlines()[0]
    run = profiling.profile_function(lib.lib["default"](tvm.cpu()), tvm.cpu(), [Ticks()], "run", warmup_iters=1)
    found = run()
    assert found["Duration (us)"].microseconds > 0 and found["Rate"].ratio == 0.5
    module.exit()


def test_profile_of_the_virtual_machine() -> None:
    machine = VirtualMachineProfiler(relay.vm.compile(MOD, "llvm", params=PARAMS), tvm.cpu())
    report = machine.profile(X)
    assert [c["Count"].value for c in report.calls] == [1, 1] and report.configuration["Executor"] == "VM"
    assert report.calls[0]["Argument Shapes"].startswith("float32[4, 8], ")
    total = report.device_metrics["cpu0"]["Duration (us)"].microseconds
    assert total >= sum(c["Duration (us)"].microseconds for c in report.calls) > 0
    with pytest.raises(ValueError, match="argument `x` of main must be a tensor"):
        machine.profile(np.zeros(3, "float32"))


def test_profile_of_inputs_set_before() -> None:
    machine = VirtualMachineProfiler(relay.vm.compile(MOD, "llvm", params=PARAMS), tvm.cpu())
    with pytest.raises(ValueError, match="the input `x` of main was not set"):
        machine.profile()
    machine.set_input("main", X)
    assert len(machine.profile(func_name="main").calls) == 2


# ---- reports


def example() -> profiling.Report:
    calls = [
        {
            "Name": name,
            "Duration (us)": profiling.Duration(us),
            "Percent": profiling.Percent(us / 10),
            "Device": "cpu0",
            "Count": profiling.Count(1),
            "Argument Shapes": "float32[2]",
        }
        for name, us in (("add", 100.0), ("dense", 600.5), ("add", 99.5))
    ]
    devices = {"cpu0": {"Duration (us)": profiling.Duration(1000.0), "Percent": profiling.Percent(100.0)}}
    return profiling.Report(calls, devices, {"Executor": "Graph", "Number of threads": profiling.Count(2)})


def test_table() -> None:
    assert example().table() == (
        "Name        Duration (us)  Percent  Device  Count  Argument Shapes\n"
        "dense              600.50    60.05  cpu0        1  float32[2]\n"
        "add                199.50    19.95  cpu0        2  float32[2]\n"
        "----------\n"
        "Sum                800.00    80.00              3\n"
        "Total            1,000.00   100.00  cpu0\n"
        "\n"
        "Configuration\n"
        "-------------\n"
        "Executor: Graph\n"
        "Number of threads: 2\n"
    )
    assert str(example()) == example().table()
    plain = example().table(sort=False, aggregate=False, col_sums=False).splitlines()
    assert [line.split()[0] for line in plain[1:4]] == ["add", "dense", "add"] and plain[4] == ""


def test_csv_and_json() -> None:
    report = example()
    lines = report.csv().splitlines()
    assert lines[0] == "Name,Duration (us),Percent,Device,Count,Argument Shapes" and len(lines) == 4
    assert lines[2] == "dense,600.5,60.05,cpu0,1,float32[2]"
    data = json.loads(report.json())
    assert data["calls"][0]["Duration (us)"] == {"microseconds": 100.0} and data["calls"][0]["Name"] == {
        "string": "add"
    }
    again = profiling.Report.from_json(report.json())
    assert again.calls == report.calls and again.table() == report.table()
    with pytest.raises(ValueError, match="this text is not a report: it has no `calls`"):
        profiling.Report.from_json("{}")
    assert runtime.num_threads() > 0
