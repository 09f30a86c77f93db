"""Targets on the command line: one, or several with commas between them; their options, in the text or as options of the command line."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.driver.tvmc.composite_target import get_codegen_names, is_codegen, logger
from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.registry import INTERNAL_TO_HELP, INTERNAL_TO_NATIVE_TYPE, attribute
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.target.kinds import TargetKind

COMMON = ("tag", "host", "from_device")
"""Options of every kind that make no sense on a command line."""
DEFAULT = "llvm"
_TOKEN = re.compile(r"""\s*(,|(?:"[^"]*"|'[^']*'|[^\s,"'])(?:"[^"]*"|'[^']*'|[^\s"'])*)""")

Parsed = dict[str, Any]
"""A target of a text: name, opts (name -> text), raw (its part of the text), is_tvm_target (False: an external code generator)."""


def generate_target_args(parser: argparse.ArgumentParser) -> None:
    """Adds --target, and --target-<kind>-<option> for each option of each kind. Help lists the options of kinds that code is made for."""
    parser.add_argument(
        "--target",
        default=DEFAULT,
        help="what to compile for: a target such as 'llvm -mcpu=skylake', a tag, targets separated by commas (code generators"
        " first: 'compute-library, llvm'), inline JSON, or the path of a JSON file (default: llvm, this machine).",
    )
    for kind in Target.list_kinds():
        _add_options(parser, kind, TargetKind.options_from_name(kind), kind in ("llvm", "c"))
    for codegen in get_codegen_names():
        _add_options(parser, codegen, {}, False)


def _add_options(parser: argparse.ArgumentParser, kind: str, options: Mapping[str, str], shown: bool) -> None:
    group = parser.add_argument_group(f"target {kind}") if shown else parser
    for option, internal in sorted(options.items()):
        if option not in COMMON:
            group.add_argument(
                f"--target-{kind}-{option}",
                type=INTERNAL_TO_NATIVE_TYPE[internal],
                metavar="VALUE",
                help=f"target {kind} {option}{INTERNAL_TO_HELP[internal]}" if shown else argparse.SUPPRESS,
            )


def reconstruct_target_args(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The options of targets among parsed arguments, by kind."""
    found: dict[str, dict[str, Any]] = {}
    for kind in Target.list_kinds():
        given = {o: getattr(args, attribute("target", kind, o), None) for o in TargetKind.options_from_name(kind)}
        given = {option: value for option, value in given.items() if value is not None}
        if given:
            found[kind] = given
    return found


def is_inline_json(target: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(target), dict)
    except ValueError:
        return False


def tokenize_target(target: str) -> list[str]:
    """The names, options and commas of a text. Commas in the value of an option belong to it, unless they end it."""
    tokens: list[str] = []
    at = 0
    text = target.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise TVMCException(f"--target {target!r}: a quotation mark is not closed")
        at = found.end()
        token = found[1]
        if token.startswith("-"):
            bare = token.rstrip(",")
            tokens += [bare] + [","] * (len(token) - len(bare))
        else:
            tokens += [part for part in re.split("(,)", token) if part]
    return tokens


def parse_target(target: str) -> list[Parsed]:
    """The targets of a text. Raises TVMCException for text that is none."""
    groups: list[list[str]] = [[]]
    for token in tokenize_target(target):
        if token == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    found = []
    for words in groups:
        if not words or words[0].startswith("-"):
            raise TVMCException(
                f"--target {target!r}: a target begins with its name, such as llvm; commas separate targets"
            )
        found.append({
            "name": words[0],
            "opts": _options(target, words[1:]),
            "raw": " ".join(words),
            "is_tvm_target": not is_codegen(words[0]),
        })  # fmt: skip
    return found


def _options(target: str, words: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    last: str | None = None
    for word in words:
        if not word.startswith("-") and last is not None:
            options[last], last = _unquoted(word), None
            continue
        if not word.startswith("-"):
            raise TVMCException(
                f"--target {target!r}: {word!r} is no option; options begin with a dash, targets follow a comma"
            )
        name, equals, value = word.lstrip("-").partition("=")
        if name in options:
            raise TVMCException(f"--target {target!r}: the option {name!r} is given twice")
        options[name] = _unquoted(value) if equals else "1"
        last = None if equals else name
    return options


def _unquoted(text: str) -> str:
    return re.sub(r"""(["'])(.*?)\1""", r"\2", text)


def validate_targets(
    parse_targets: Sequence[Parsed], additional_target_options: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Raises TVMCException unless one or two of the targets (the second is the host) are compiled for here, the last one is such, none is
    given twice, and options are given only for those that are named."""
    names = [t["name"] for t in parse_targets]
    own = [t["name"] for t in parse_targets if t["is_tvm_target"]]
    if len(set(names)) < len(names):
        raise TVMCException(f"Duplicate target definitions are not allowed; given are {', '.join(names)}")
    if not parse_targets or not parse_targets[-1]["is_tvm_target"]:
        raise TVMCException(
            f"The last target must be one that all the rest is compiled for, such as llvm or c; given are {', '.join(names) or 'none'}"
        )
    if len(own) > 2:
        raise TVMCException(
            f"Only two of the following targets can be used at a time (a target and its host). Found: {', '.join(own)}"
        )
    for kind, options in (additional_target_options or {}).items():
        if kind not in [t["name"] for t in parse_targets] and kind not in [
            _kind(t) for t in parse_targets if t["is_tvm_target"]
        ]:
            raise TVMCException(f"Passed --target-{kind}-{next(iter(options))} but did not specify {kind} target")


def _kind(parsed: Parsed) -> str:
    """The kind of a target that is named otherwise, by a tag."""
    return _built(parsed["name"], {}).kind.name


def _built(name: str, options: Mapping[str, Any]) -> Target:
    """A target of a kind or tag, with options. Raises TVMCException for what it has not."""
    try:
        base = Target(name)
        if not options:
            return base
        config = base.export() if base.tag or base.kind.name != name else {"kind": name}
        return Target({**config, **options})
    except (TVMError, ValueError) as error:
        raise TVMCException(f"--target: {error}") from error


def target_from_cli(
    target: str | Target | Mapping[str, Any], additional_target_options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Target, list[Parsed]]:
    """The target to compile for, and the external code generators before it. target: text as --target takes it, or a Target.
    additional_target_options: more options, by kind."""
    extra: list[Parsed] = []
    parts: list[Parsed] = []
    if isinstance(target, (Target, Mapping)):
        made = Target(target)
    elif is_inline_json(target) or _is_file(target):
        made = _from_json(target)
    else:
        parts = parse_target(target)
        validate_targets(parts, additional_target_options)
        extra = [t for t in parts if not t["is_tvm_target"]]
        more = additional_target_options or {}
        built = []
        for part in [t for t in parts if t["is_tvm_target"]]:
            kind = part["name"] if part["name"] in more else _kind(part) if more else ""
            try:
                built.append(_built(part["name"], {**part["opts"], **more.get(kind, {})}))
            except TVMCException as error:
                if part is parts[-1]:
                    raise
                raise TVMCException(
                    f"{error}. Code generators before the last target: {', '.join(get_codegen_names())}"
                ) from error
        for part in extra:
            part["opts"].update(more.get(part["name"], {}))
        made = Target(built[0], built[1]) if len(built) == 2 else built[0]
    if not parts and additional_target_options:
        made = Target({**made.export(), **additional_target_options.get(made.kind.name, {})})
    logger.debug("the target is %s, after %s", made, [t["name"] for t in extra])
    return made, extra


def _is_file(target: str) -> bool:
    return target not in Target.list_kinds() and os.path.isfile(target)


def _from_json(target: str) -> Target:
    where = "--target"
    if not is_inline_json(target):
        where = f"--target {target}"
        with open(target, encoding="utf-8") as file:
            text = file.read()
        if not is_inline_json(text):
            raise TVMCException(
                f'{where}: this file holds no JSON object, such as {{"kind": "llvm", "mcpu": "skylake"}}'
            )
        target = text
    try:
        return Target(json.loads(target))
    except (TVMError, ValueError) as error:
        raise TVMCException(f"{where}: {error}") from error
