"""Files with options: `tvmc --config host.json compile ...`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException

CONFIGS_JSON_DIR: str | None = None
"""The folder of the files that --config takes by name; None: it was not asked for yet."""

SECTIONS = ("executor", "runtime")


class ConfigsJsonNotFoundError(TVMCException):
    """There is no folder of such files."""


def get_configs_json_dir() -> str:
    """The folder of the files that --config takes by name."""
    global CONFIGS_JSON_DIR
    if CONFIGS_JSON_DIR is None:
        found = Path(__file__).parent / "configs"
        if not found.is_dir():
            raise ConfigsJsonNotFoundError(f"the folder {found} is missing; install the package again")
        CONFIGS_JSON_DIR = os.fspath(found)
    return CONFIGS_JSON_DIR


def find_json_file(name: str, path: str) -> str:
    """The file `name`.json below a folder. Raises TVMCException if there is none."""
    known = {file.stem: file for file in sorted(Path(path).rglob("*.json"))}
    if name not in known:
        raise TVMCException(
            f"there is no configuration {name!r}; there are {', '.join(known)}, and paths of JSON files"
        )
    return os.fspath(known[name])


def read_and_convert_json_into_dict(config_args: argparse.Namespace) -> list[dict[str, Any]]:
    """The options of the file that `config_args.config` is or names."""
    name = str(config_args.config)
    is_path = name.endswith(".json") or os.sep in name
    path = name if is_path else find_json_file(name, get_configs_json_dir())
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise TVMCException(f"--config {name}: this file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TVMCException(f"--config {name}: this file is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise TVMCException(
            f'--config {name}: this file holds no JSON object, such as {{"targets": [{{"kind": "llvm"}}]}}'
        )
    return convert_config_json_to_cli(data)


def parse_target_from_json(one_target: Mapping[str, Any], command_line_list: list[dict[str, Any]]) -> str:
    """The kind of a target; its options are appended to the list as those of the command line."""
    if "kind" not in one_target:
        raise TVMCException(
            f'--config: a target needs a "kind", such as "llvm", but has {", ".join(one_target) or "nothing"}'
        )
    kind = str(one_target["kind"])
    for option, value in one_target.items():
        if option != "kind":
            text = ",".join(map(str, value)) if isinstance(value, list) else value
            command_line_list.append({f"target_{kind}_{option}".replace("-", "_"): text})
    return kind


def convert_config_json_to_cli(json_params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The options of a configuration, each by its name among parsed arguments."""
    found: list[dict[str, Any]] = []
    for key, value in json_params.items():
        if key == "targets":
            if (
                not isinstance(value, Sequence)
                or isinstance(value, str)
                or not all([isinstance(t, dict) for t in value])
            ):
                raise TVMCException(
                    '--config: "targets" is a list of objects, such as [{"kind": "llvm", "mcpu": "skylake"}]'
                )
            found.append({"target": ", ".join([parse_target_from_json(one, found) for one in value])})
        elif key in SECTIONS:
            if not isinstance(value, dict) or "kind" not in value:
                raise TVMCException(f'--config: "{key}" is an object with a "kind", such as {{"kind": "aot"}}')
            found.append({key: value["kind"]})
            found += [
                {f"{key}_{value['kind']}_{option}".replace("-", "_"): given}
                for option, given in value.items()
                if option != "kind"
            ]
        elif isinstance(value, dict):
            found.append({key.replace("-", "_"): [f"{name}={given}" for name, given in value.items()]})
        else:
            found.append({key.replace("-", "_"): value})
    return found
