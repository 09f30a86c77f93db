"""`tilewright vta explore`: the sweep, its Pareto front, what it writes, what it refuses, and that Ctrl-C keeps what was found."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.command import command
from tilewright.vta.config_fields import of_fields
from tilewright.vta.explore import networks, page, sweep
from tilewright.vta.explore.area import area_of
from tilewright.vta.explore.sweep import Point, Space
from tilewright.vta.search.best import choose

LAYERS = [
    {"size": 14, "channels": 64, "filters": 64, "kernel": 3, "times": 2},
    {"size": 14, "channels": 64, "filters": 128, "stride": 2},
]
SMALL = ("--arrays", "8x8,8x16,2x16x16", "--inp", "16", "--wgt", "64", "--acc", "32,64")


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(LAYERS))
    return path


def test_explore(layers: Path, tmp_path: Path) -> None:
    done = command(
        "vta",
        "explore",
        "--layers",
        layers,
        *SMALL,
        "--json",
        "-o",
        tmp_path / "front.html",
        "--png",
        tmp_path / "front.picture",
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    best = found["front"]
    assert found["complete"] and {r["array"] for r in best} == {"1x8x8", "1x8x16", "2x16x16"}
    assert [r["area_kge"] for r in best] == sorted([r["area_kge"] for r in best])
    written = (tmp_path / "front.html").read_text()
    assert "<svg" in written and all([f"<td>{r['cycles']}</td>" in written for r in best])
    assert (tmp_path / "front.picture").read_bytes().startswith(b"\x89PNG")


def test_a_budget(layers: Path) -> None:
    found = json.loads(
        command("vta", "explore", "--layers", layers, *SMALL, "--area", "1120", "--bandwidth", "8", "--json").out
    )
    assert {r["array"] for r in found["configurations"]} == {"1x8x8"}
    assert {r["bytes_per_cycle"] for r in found["configurations"]} == {4, 8}


def test_ctrl_c_keeps_what_was_found(layers: Path, tmp_path: Path) -> None:
    calls = []

    def stop(*args: object) -> Point | None:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(*args)  # type: ignore[arg-type]

    evaluate = sweep.evaluate
    with mock.patch.object(sweep, "evaluate", stop):
        done = command("vta", "explore", "--layers", layers, *SMALL, "--json", "-o", tmp_path / "front.html")
    assert done.code == 130
    assert "stopped; the Pareto front is that of the 2 configurations so far" in done.err
    assert len(json.loads(done.out)["configurations"]) == 2 and not json.loads(done.out)["complete"]
    assert "The sweep was stopped before its end." in (tmp_path / "front.html").read_text()


def test_what_is_passed_over_is_no_better() -> None:
    """A sweep without shortcuts has the same Pareto front."""
    space = Space(((1, 4, 4), (1, 8, 8), (1, 16, 16)), (4, 8), (16,), (8, 16), (4, 8))
    layer = (networks.Layer(14, 32, 32, 3),)
    found: list[Point] = []
    sweep.explore(space, layer, lambda done, total, what: None, found)
    everything = [p for fields, _ in space.configurations() if (p := sweep.evaluate(fields, layer)) is not None]
    assert sweep.front(found) == sweep.front(everything) and len(found) <= len(everything)
    assert "<circle" in page.drawing(found)


def test_few_estimates_are_near_the_best() -> None:
    config = of_fields({"LOG_BLOCK": 5, "DRAM_BYTES": 16})
    for layer in networks.NETWORKS["resnet18"][-2:]:
        problem = layer.problem(config)
        assert choose(problem, config, most=sweep.ESTIMATES).cycles <= 1.05 * choose(problem, config).cycles


def test_networks() -> None:
    """Multiplications of the convolutions but the first one: with it, and for ResNet without the last layer, those that are known."""
    for name, first, whole in (
        ("resnet18", 0.118, 1.814), ("resnet34", 0.118, 3.664), ("resnet50", 0.118, 4.089), ("mobilenet_v1", 0.0108, 0.5687),
        ("mobilenet_v2", 0.0108, 0.3008),
    ):  # fmt: skip
        assert sum([x.times * x.products for x in networks.NETWORKS[name]]) / 1e9 + first == pytest.approx(
            whole, rel=0.002
        )


def test_area() -> None:
    small, wide = (sum(area_of(of_fields(f)).values()) for f in ({}, {"LOG_WGT_BUFF_SIZE": 19}))
    assert wide - small == (1 << 18) * 8 * 0.6 * 1.5
    assert area_of(of_fields({"LOG_BLOCK": 5}))["products"] == 4 * area_of(of_fields({}))["products"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--network", "resnet19"), "there is no network resnet19; there are resnet18, resnet34, resnet50, vgg16"),
        (("--area", "100"), "has an area of at most 100 kGE; the smallest has"),
        (("--area", "-1"), "--area is -1; it must be positive"),
        (("--area", "nan"), "--area is nan; it must be positive"),
        (("-o", "missing/x.html"), "--output missing/x.html: the folder missing does not exist; create it first"),
        (("--png", "missing/x.png"), "--png missing/x.png: the folder missing does not exist; create it first"),
        (("--arrays", "16"), "--arrays takes inputs x outputs, or batch x inputs x outputs"),
        (("--inp", "16,x"), "--inp takes positive numbers with commas between, such as 16,32, not '16,x'"),
        (("--inp", "1", "--wgt", "1", "--acc", "1", "--arrays", "32x32"), "no configuration of the sweep has tiles for every layer"),
        (("--bandwidth", "0"), "--bandwidth is 0; it must be at least 1"),
    ],
)  # fmt: skip
def test_what_it_refuses(options: tuple[str, ...], message: str) -> None:
    done = command("vta", "explore", *options)
    assert done.code and message in " ".join(done.err.replace("│", " ").split()), done.err


def test_a_configuration_that_is_no_object(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[]")
    assert "config.json: a configuration is a JSON object of fields, not list" in " ".join(
        command("vta", "explore", "--config", path).err.split()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "must hold a list of layers"),
        ('[{"size": 8}]', "layer 0 lacks channels"),
        ('[{"size": 8, "channels": 8, "filters": 8, "pad": 1}]', "layer 0 has pad; a layer has positive integers size, channels"),
        ('[{"size": 8, "channels": 8, "filters": -8}]', "layer 0 has filters = -8"),
    ],
)  # fmt: skip
def test_files_that_hold_no_layers(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "layers.json"
    path.write_text(text)
    done = command("vta", "explore", "--layers", path)
    assert done.code and message in done.err
