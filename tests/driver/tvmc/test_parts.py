"""Texts of a command line and what they become: targets, shapes, memories, options; parts that external code generators take."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import dense_model
from tests.driver.tvmc.command import told, tvmc
from tilewright import relay
from tilewright.driver.tvmc import (
    TVMCException,
    composite_target,
    config_options,
    pass_config,
    registry,
    workspace_pools,
)
from tilewright.driver.tvmc.arguments import TVMCSuppressedArgumentParser
from tilewright.driver.tvmc.compiler import add_tir_to_dumps
from tilewright.driver.tvmc.runner import open_session
from tilewright.driver.tvmc.shape_parser import parse_shape_string
from tilewright.driver.tvmc.target import (
    is_inline_json,
    parse_target,
    target_from_cli,
    tokenize_target,
    validate_targets,
)
from tilewright.driver.tvmc.tracker import tracker_host_port_from_cli
from tilewright.relay.backend.options import Executor, Runtime
from tilewright.target import Target


def test_shapes() -> None:
    assert parse_shape_string("x:[1,3, 224,224] a/b:0: [2] scalar:[]") == {
        "x": [1, 3, 224, 224],
        "a/b:0": [2],
        "scalar": [],
    }
    assert isinstance(parse_shape_string("x:[-1,4]")["x"][0], relay.Any)
    for text in ("", "x", "x:[1", "x:[a]", "x:[1] y", "x:[1] x:[2]"):
        with pytest.raises(argparse.ArgumentTypeError, match="input shapes have the form"):
            parse_shape_string(text)


def test_targets() -> None:
    assert tokenize_target("dnnl -a=1,2, llvm -mattr=+x,+y -mcpu='a b'") == [
        "dnnl", "-a=1,2", ",", "llvm", "-mattr=+x,+y", "-mcpu='a b'",
    ]  # fmt: skip
    (parsed,) = parse_target("llvm -mattr=+avx2,+fma --num-cores 4 -system-lib")
    assert parsed["opts"] == {"mattr": "+avx2,+fma", "num-cores": "4", "system-lib": "1"}
    assert (parsed["name"], parsed["is_tvm_target"]) == ("llvm", True)
    assert [t["name"] for t in parse_target("compute-library,c")] == ["compute-library", "c"]
    target, extra = target_from_cli("compute-library, llvm -num-cores=2", {"llvm": {"mcpu": "skylake"}})
    assert target == Target("llvm -mcpu=skylake -num-cores=2")
    assert [t["name"] for t in extra] == ["compute-library"]
    both, _ = target_from_cli("cuda -arch=sm_80, llvm -mcpu=skylake")
    assert both.kind.name == "cuda" and both.host == Target("llvm -mcpu=skylake")
    tagged, _ = target_from_cli("raspberry-pi/5", {"llvm": {"num-cores": 2}})
    assert (tagged.attrs["num-cores"], tagged.mcpu) == (2, "cortex-a76")
    assert target_from_cli(Target("c"))[0] == Target("c")


def test_targets_as_json(tmp_path: Path) -> None:
    text = json.dumps({"kind": "llvm", "mcpu": "skylake"})
    assert is_inline_json(text) and not is_inline_json("llvm")
    (tmp_path / "t.json").write_text(text)
    for given in (text, str(tmp_path / "t.json")):
        assert target_from_cli(given)[0] == Target("llvm -mcpu=skylake")
        assert target_from_cli(given, {"llvm": {"num-cores": 2}})[0] == Target("llvm -mcpu=skylake -num-cores=2")
    (tmp_path / "t.json").write_text("llvm")
    with pytest.raises(TVMCException, match="this file holds no JSON object"):
        target_from_cli(str(tmp_path / "t.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a target begins with its name"),
        ("llvm,,c", "a target begins with its name"),
        ("-mcpu=x", "a target begins with its name"),
        ("llvm skylake", "'skylake' is no option; options begin with a dash, targets follow a comma"),
        ("llvm -mcpu=a -mcpu=b", "the option 'mcpu' is given twice"),
        ('llvm -mcpu="a', "a quotation mark is not closed"),
        ("llvm, dnnl", "The last target must be one that all the rest is compiled for"),
        ("llvm, llvm", "Duplicate target definitions are not allowed"),
        ("cmsis-nn, c", "no target kind 'cmsis-nn'.*Code generators before the last target: compute-library, dnnl"),
        ("cuda, c, llvm", "Only two of the following targets can be used at a time"),
        ('{"kind": "llvn"}', "there is no target kind 'llvn'"),
        ("llvm -mtripel=x", "has no option -mtripel; nearest known: mtriple"),
    ],
)
def test_wrong_targets(text: str, message: str) -> None:
    with pytest.raises(TVMCException, match=message):
        target_from_cli(text)


def test_options_of_targets_that_are_not_named() -> None:
    with pytest.raises(TVMCException, match="Passed --target-c-mcpu but did not specify c target"):
        validate_targets(parse_target("llvm"), {"c": {"mcpu": "x"}})


def parsed(add: Any, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add(parser)
    return parser.parse_args(words)


def test_choices() -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        registry.generate_registry_args(parser, Executor, "graph")
        registry.generate_registry_args(parser, Runtime)

    words = ["--executor=aot", "--executor-aot-interface-api=c", "--executor-aot-unpacked-api=1", "--runtime=crt"]
    args = parsed(add, *words, "--executor-aot-workspace-byte-alignment=16")
    wanted = {"interface-api": "c", "unpacked-api": True, "workspace-byte-alignment": 16}
    assert registry.reconstruct_registry_entity(args, Executor) == Executor("aot", wanted)
    assert registry.reconstruct_registry_entity(args, Runtime) == Runtime("crt")
    assert registry.reconstruct_registry_entity(parsed(add), Runtime) is None


def test_memories() -> None:
    llvm, c = Target("llvm"), Target("c")
    args = parsed(
        workspace_pools.generate_workspace_pools_args,
        "--workspace-pools=sram,dram",
        "--workspace-pools-targets=sram:llvm,c,dram:c",
        "--workspace-pools-size-hint-bytes=sram:100,dram:200",
        "--workspace-pools-size-hint-bytes=sram:400",
        "--workspace-pools-read-latency-cycles=dram:7",
        "--workspace-pools-target-burst-bytes=sram:llvm:4,sram:c:8",
    )
    pools = workspace_pools.workspace_pools_recombobulate(args, [llvm, c])
    assert pools is not None
    sram, dram = pools.pools
    assert (sram.pool_name, list(sram.targets), list(dram.targets)) == ("sram", [llvm, c], [c])
    assert (sram.pool_info_properties.size_hint_bytes, dram.pool_info_properties.size_hint_bytes) == (400, 200)
    assert dict(sram.pool_info_properties.target_burst_bytes) == {llvm: 4, c: 8}
    assert dram.pool_info_properties.read_latency_cycles == 7
    for words, message in (
        (["--workspace-pools-size-hint-bytes=a:1"], "needs --workspace-pools, which names the memories"),
        (
            ["--workspace-pools=a", "--workspace-pools-size-hint-bytes=b:1"],
            "there is no memory 'b'; --workspace-pools names a",
        ),
        (["--workspace-pools=a", "--workspace-pools-size-hint-bytes=a:x"], "'a:x' does not end with a number"),
        (
            ["--workspace-pools=a", "--workspace-pools-targets=a:cuda"],
            "the model is not compiled for 'cuda', but for llvm, c",
        ),
    ):
        wrong = parsed(workspace_pools.generate_workspace_pools_args, *words)
        with pytest.raises(TVMCException, match=message):
            workspace_pools.workspace_pools_recombobulate(wrong, [llvm, c])


def test_memories_of_a_model(tmp_path: Path) -> None:
    dense_model(tmp_path / "dense.onnx")
    base = ["compile", tmp_path / "dense.onnx", "-o", tmp_path / "p.tar", "--workspace-pools=sram"]
    assert tvmc(*base, "--workspace-pools-size-hint-bytes=sram:65536").code == 0
    assert "sram" in told(*base, "--workspace-pools-size-hint-bytes=sram:16")


def test_options_of_passes() -> None:
    found = pass_config.parse_configs(
        ["tir.disable_vectorize=true", "relay.FuseOps.max_depth=3", "relay.build.precision=float16"]
    )
    assert found == {"tir.disable_vectorize": True, "relay.FuseOps.max_depth": 3, "relay.build.precision": "float16"}
    assert pass_config.parse_configs(None) == {}
    ((level, function),) = pass_config.get_pass_config_value("tir.add_lower_pass", "2,json.dumps", (list, tuple))
    assert (level, function) == (2, json.dumps)
    for text, message in {
        "relay.FuseOps.max_depth=deep": "must be an integer",
        "tir.disable_vectorize=maybe": "must be one of 1, true, 0, false",
        "tir.add_lower_pass=1": "of the form opt_level1,pass1,opt_level2,pass2",
        "tir.add_lower_pass=1,none.such": "no function 'none.such'",
        "tir.add_lower_pass=1,plain": "name its module, too",
        "tir.UnrollLoop=3": "are set in Python",
    }.items():
        with pytest.raises(TVMCException, match=message):
            pass_config.parse_configs([text])


def test_trackers() -> None:
    assert tracker_host_port_from_cli(None) == (None, None)
    assert tracker_host_port_from_cli("farm") == ("farm", 9090)
    assert tracker_host_port_from_cli("farm:9190") == ("farm", 9190)
    assert tracker_host_port_from_cli("[::1]:9190") == ("::1", 9190)
    for text in ("farm:x", ":9190", "farm:9190/x"):
        with pytest.raises(TVMCException, match="--rpc-tracker takes HOST:PORT"):
            tracker_host_port_from_cli(text)


@pytest.mark.parametrize("port", ["x", 0, 70000])
def test_ports_that_are_none(port: int | str) -> None:
    with pytest.raises(TVMCException, match=f"the port {port!r} is none: a number from 1 to 65535"):
        open_session("127.0.0.1", port, None)


def test_configurations_as_options() -> None:
    facts = {
        "targets": [{"kind": "compute-library"}, {"kind": "llvm", "mcpu": "skylake", "mattr": ["+avx2", "+fma"]}],
        "executor": {"kind": "aot", "interface-api": "c"},
        "pass-config": {"tir.disable_vectorize": "1"},
        "opt-level": 2,
    }
    assert config_options.convert_config_json_to_cli(facts) == [
        {"target_llvm_mcpu": "skylake"},
        {"target_llvm_mattr": "+avx2,+fma"},
        {"target": "compute-library, llvm"},
        {"executor": "aot"},
        {"executor_aot_interface_api": "c"},
        {"pass_config": ["tir.disable_vectorize=1"]},
        {"opt_level": 2},
    ]


def test_parsers_that_end_no_process() -> None:
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--device", choices=["cpu"])
    quiet = TVMCSuppressedArgumentParser(parent)
    assert quiet.parse_known_args(["--device", "cpu", "--more"])[1] == ["--more"]
    with pytest.raises(TVMCException, match="invalid choice: 'gpu'"):
        quiet.parse_args(["--device", "gpu"])


def test_lowered_functions_are_kept() -> None:
    dumps: dict[str, str] = {}
    config, same = add_tir_to_dumps({}, dumps)
    assert same is dumps
    x = relay.var("x", shape=(4,))
    import tilewright as tvm

    with tvm.transform.PassContext(config=config):
        tvm.lower(tvm.te.create_prim_func([tvm.te.placeholder((4,), name="a")]))
    relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm")
    assert "T.prim_func" in dumps["tir"]


@pytest.fixture
def codegen() -> Any:
    """A code generator `halves`, which takes products of matrices with a rectifier after them, and computes them by NumPy."""
    from tilewright.relay.dataflow_pattern import is_op, wildcard
    from tilewright.relay.op.contrib import register

    pattern = is_op("nn.relu")(is_op("nn.matmul")(wildcard(), wildcard()))
    relay.op.contrib.register_pattern_table("halves", lambda: [("halves.dense_relu", pattern)])
    yield "halves"
    register._tables.pop("halves")


def test_offloads(codegen: str, tmp_path: Path) -> None:
    dense_model(tmp_path / "dense.onnx")
    names = composite_target.get_codegen_by_target(codegen)
    assert names["config_key"] is None
    for name in ("compute-library", "dnnl"):
        assert name in composite_target.get_codegen_names() and composite_target.is_codegen(name)
    with pytest.raises(
        TVMCException, match="Composite target no-such is not defined in TVMC; defined are compute-library"
    ):
        composite_target.get_codegen_by_target("no-such")
    base = ["compile", tmp_path / "dense.onnx", "-o", tmp_path / "p.tar", "--target", f"{codegen}, llvm"]
    done = tvmc(*base, "--dump-offloads", "-")
    # Nothing makes code of the parts that it takes.
    assert done.code == 4 and "relay.ext.halves" in done.err
    lines = done.out.splitlines()
    assert lines[:4] == ["Total number of operators and distribution by targets", "Total: 3", "halves: 2", "generic: 1"]
    assert lines[5] == "'halves         <-     halves.dense_relu'"
    assert [line.split("<-")[0].strip(" '") for line in lines[6:]] == ["halves", "halves", "generic"]
    assert "nn.relu(%0)" in lines[7]
    assert tvmc(*base, "--dump-offloads", tmp_path / "offloads").code == 4
    assert (tmp_path / "offloads").read_text() == done.out
