"""`tvmc micro` and `tvmc run --device micro`: a model becomes a project, whose firmware is a process of this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.driver.tvmc.command import told, tvmc
from tests.micro.boards import network
from tilewright.driver import tvmc as driver
from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.model import TVMCModel, TVMCPackage
from tilewright.driver.tvmc.project import check_options_choices, get_options


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, compiled for a process of this machine (model.tar), and inputs (x.npz)."""
    folder = tmp_path_factory.mktemp("micro")
    mod, weights = network()
    TVMCModel(mod, weights).save(folder / "net.tar")
    np.savez(folder / "x.npz", x=np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype("float32"))
    for name, executor in (("model", "aot"), ("kernels", "graph")):
        driver.compile(
            TVMCModel(model_path=folder / "net.tar"), "c -model=host", executor=driver_executor(executor), runtime=driver_runtime(),
            package_path=folder / f"{name}.tar", output_format="mlf",
        )  # fmt: skip
    driver.compile(TVMCModel(model_path=folder / "net.tar"), "llvm", package_path=folder / "here.tar")
    return folder


def driver_executor(name: str) -> object:
    from tilewright.relay.backend import Executor

    return Executor(name)


def driver_runtime() -> object:
    from tilewright.relay.backend import Runtime

    return Runtime("crt")


def test_from_a_model_to_its_outputs(place: Path) -> None:
    project, inputs = place / "project", place / "x.npz"
    made = tvmc(
        "micro", "create-project", project, place / "model.tar", "crt", "--project-option", "memory_size_bytes=100000"
    )
    assert made == (0, "", ""), made
    assert told("run", "--device", "micro", project).startswith(
        "open_transport: "
    ) and "build the project first" in told("run", "--device", "micro", project)
    assert tvmc("micro", "build", project, "crt").code == 0 and tvmc("micro", "flash", project).code == 0
    done = tvmc(
        "run", "--device", "micro", "-i", inputs, "-o", place / "board.npz", "--print-time", "--repeat", "2", project
    )
    assert done.code == 0 and "mean (ms)" in done.out, done
    assert tvmc("run", "-i", inputs, "-o", place / "here.npz", place / "here.tar").code == 0
    there, here = (np.load(place / f"{n}.npz")["output_0"] for n in ("board", "here"))
    np.testing.assert_allclose(there, here, rtol=1e-5)
    assert (
        told("micro", "create-project", project, place / "model.tar", "crt")
        == f"{project} is there already; --force replaces it"
    )
    again = tvmc("micro", "create-project", "--force", project, place / "kernels.tar", "crt")
    assert again.code == 0 and tvmc("micro", "build", project).code == 0
    package = TVMCPackage(project / "model.tar", project)
    found = driver.run(package, "micro", inputs=str(inputs), benchmark=True, repeat=2, number=1)
    np.testing.assert_allclose(found.get_output("output_0"), here, rtol=1e-5)


def test_options(place: Path) -> None:
    shown = tvmc("micro", "create-project", "--list-options", "x", "x", "qemu")
    assert shown.code == 0 and "board=str\n  The board. One of hifive1, microbit," in shown.out
    assert "Needed by generate_project." in shown.out and "instruction_shift" not in shown.out
    model, project = place / "model.tar", place / "none"
    for words, message in (
        (["crt", "--project-option", "sped=1"], "the project has no option 'sped'; it has verbose"),
        (
            ["crt", "--project-option", "memory_size_byte=1"],
            "the project has no option 'memory_size_byte'; nearest: memory_size_bytes",
        ),
        (["crt", "--project-option", "speed"], "a project option is NAME=VALUE, but was given 'speed'"),
        (["crt", "--project-option", "a=1", "a=2"], "the project option 'a' is given twice"),
        (["qemu", "--project-option", "board=pico"], "the project option 'board' is one of hifive1"),
        (["qemu"], "the template needs the option 'board': The board."),
        (["template"], "--template-dir names the folder of the platform 'template'"),
        (["crt", "--template-dir", "x"], "--template-dir names the folder of the platform 'template'"),
        (["template", "--template-dir", place], f"{place} is no project, and no template"),
    ):
        assert told("micro", "create-project", project, model, *words).startswith(message), words
    assert (
        told("micro", "create-project", project, place / "no.tar", "crt")
        == f"{place / 'no.tar'}: there is no such file"
    )
    assert told("micro", "create-project", "--force", place, model, "crt").startswith(f"{place} is no project")
    with pytest.raises(TVMCException, match="a package has no project|the package has no project"):
        driver.run(TVMCPackage(model), "micro")
    assert get_options(["a=b=c", "d="]) == {"a": "b=c", "d": ""} and get_options(None) == {}
    check_options_choices({"a": "1"}, [{"name": "a", "choices": ("1", "2")}, {"name": "b", "choices": None}])
