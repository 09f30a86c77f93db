"""`tvmc micro`: projects for microcontrollers are made, built and flashed; `tvmc run --device micro` runs one.

examples:
  tvmc compile --target "c -model=host" --executor aot --runtime crt --output-format mlf -o model.tar classifier.onnx
  tvmc micro create-project project model.tar qemu --project-option board=mps2_an500
  tvmc micro build project
  tvmc micro flash project
  tvmc run --device micro project
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.main import register_parser, with_defaults
from tilewright.driver.tvmc.project import get_and_check_options, get_project_dir, get_project_options, listed

SUPPORT_MICRO = True
"""Whether projects for microcontrollers are made and run."""
TEMPLATE = "template"
"""The platform whose template is the folder that --template-dir names."""
PLATFORMS = ("crt", "qemu", "zephyr", "arduino", TEMPLATE)


@register_parser
def add_micro_parser(
    subparsers: Any, main_parser: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]
) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "micro",
        help="make, build and flash projects for microcontrollers",
        description="make, build and flash projects for microcontrollers",
        epilog=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(func=drive_micro)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="{create-project,build,flash}")

    def add(
        name: str, what: str, handler: Callable[[argparse.Namespace], int], *aliases: str
    ) -> argparse.ArgumentParser:
        found: argparse.ArgumentParser = commands.add_parser(name, aliases=aliases, help=what, description=what)
        found.set_defaults(handler=handler)
        found.add_argument("project_dir", metavar="PROJECT", help="the folder of the project.")
        return found

    create = add("create-project", "make a project of a compiled model", create_project_handler, "create")
    create.add_argument("MLF", help="a package in the model library format (tvmc compile --output-format mlf).")
    create.add_argument(
        "platform", choices=PLATFORMS, help=f"what the project is for; {TEMPLATE}: --template-dir says."
    )
    create.add_argument("--template-dir", metavar="FOLDER", help="a template project of your own.")
    create.add_argument("-f", "--force", action="store_true", help="replace a project that is there.")
    both = [
        add("build", "compile a project", build_handler),
        add("flash", "bring a project to its board", flash_handler),
    ]
    for parser_ in both:
        parser_.add_argument(
            "platform", nargs="?", choices=PLATFORMS, help="what the project is for, which it knows itself."
        )
    for parser_ in (create, *both):
        parser_.add_argument(
            "--project-option", nargs="+", action="extend", metavar="NAME=VALUE", help="options of the project."
        )
        parser_.add_argument("-l", "--list-options", action="store_true", help="print the options, and do nothing.")
        with_defaults(parser_, json_params)


def drive_micro(args: argparse.Namespace) -> int:
    """Runs the command that parsed arguments name; returns the exit code."""
    if not hasattr(args, "handler"):
        raise TVMCException("tvmc micro needs a command: create-project, build or flash (tvmc micro --help)")
    return int(args.handler(args) or 0)


def template_folder(args: argparse.Namespace) -> str:
    """The folder of the template that arguments name."""
    from tilewright.micro.standalone import get_microtvm_template_projects

    if (args.platform == TEMPLATE) != (args.template_dir is not None):
        raise TVMCException(
            f"--template-dir names the folder of the platform {TEMPLATE!r}; others have a template already"
        )
    found: str = args.template_dir if args.template_dir is not None else get_microtvm_template_projects(args.platform)
    return found


def create_project_handler(args: argparse.Namespace) -> int:
    """Makes a project."""
    from tilewright.micro.project import TemplateProject

    template = TemplateProject.from_directory(template_folder(args))
    try:
        valid = get_project_options(template.info())
        if args.list_options:
            print(listed(valid, "generate_project"))
            return 0
        options = get_and_check_options(args.project_option, valid)
        folder = Path(args.project_dir).resolve()
        if not Path(args.MLF).is_file():
            raise TVMCException(f"{args.MLF}: there is no such file")
        if folder.exists():
            if not args.force:
                raise TVMCException(f"{folder} is there already; --force replaces it")
            get_project_dir(folder)  # nothing but projects is removed
            shutil.rmtree(folder)
        template.generate_project_from_mlf(args.MLF, folder, options).close()
    finally:
        template.close()
    return 0


def build_handler(args: argparse.Namespace) -> int:
    """Compiles a project."""
    return _carried_out(args, "build")


def flash_handler(args: argparse.Namespace) -> int:
    """Brings a project to its board."""
    return _carried_out(args, "flash")


def _carried_out(args: argparse.Namespace, method: str) -> int:
    from tilewright.micro.project import GeneratedProject

    project = GeneratedProject.from_directory(get_project_dir(args.project_dir))
    try:
        valid = get_project_options(project.info())
        if args.list_options:
            print(listed(valid, method))
            return 0
        if args.platform not in (None, TEMPLATE) and args.platform != _platform(project.info().platform_name):
            raise TVMCException(
                f"{args.project_dir} is a project for {project.info().platform_name}, not for {args.platform}"
            )
        project.options = dict(get_and_check_options(args.project_option, valid))
        project.build() if method == "build" else project.flash()
    finally:
        project.close()
    return 0


def _platform(name: str) -> str:
    return "crt" if name == "host" else name


def project_package(project_dir: str | os.PathLike[str]) -> str:
    """The package in the model library format of a project."""
    from tilewright.micro.project import GeneratedProject

    project = GeneratedProject.from_directory(get_project_dir(project_dir))
    try:
        return os.fspath(project.info().model_library_format_path or "")
    finally:
        project.close()


__all__ = [
    "PLATFORMS", "SUPPORT_MICRO", "add_micro_parser", "build_handler", "create_project_handler", "drive_micro", "flash_handler",
    "project_package",
]  # fmt: skip
