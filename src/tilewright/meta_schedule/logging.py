"""Loggers of tuning: one for the session, and one for each task, each with a file in the work folder."""

from __future__ import annotations

import logging
import logging.config
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROOT = "tilewright.meta_schedule"
FORMAT = "%(asctime)s [%(levelname)s] %(message)s"


def get_logger(name: str) -> logging.Logger:
    """The logger of a name."""
    return logging.getLogger(name)


def get_logging_func(logger: logging.Logger) -> Callable[[int, str, int, str], None]:
    """What logs a message of (level, file, line, text) by a logger. level: as in module logging; 0 stands for DEBUG."""

    def log(level: int, filename: str, lineno: int, message: str) -> None:
        logger.log(level or logging.DEBUG, "%s:%d: %s", os.path.basename(filename), lineno, message)

    return log


def create_loggers(
    log_dir: str,
    params: Sequence[Mapping[str, Any]],
    logger_config: Mapping[str, Any] | None = None,
    disable_existing_loggers: bool = False,
) -> None:
    """Makes a logger with a file in log_dir for each {"logger_name": .., "task_name": ..} of params, and one of the session.

    logger_config: another configuration, as logging.config.dictConfig takes it; file names may contain {log_dir} and, for entries whose
    names contain {logger_name}, {task_name}.
    """
    os.makedirs(log_dir, exist_ok=True)
    if logger_config is not None:
        config = _filled(dict(logger_config), params, log_dir)
        config.setdefault("version", 1)
        config["disable_existing_loggers"] = disable_existing_loggers
        logging.config.dictConfig(config)
        return
    _with_file(get_logger(ROOT), os.path.join(log_dir, f"{ROOT}.task_scheduler.log"))
    for entry in params:
        name = str(entry["logger_name"])
        _with_file(get_logger(name), os.path.join(log_dir, f"{_file_name(name)}.log"))


def get_loggers_from_work_dir(work_dir: str, task_names: Sequence[str]) -> list[logging.Logger]:
    """The loggers of tasks, with files in the folder `logs` of the work folder."""
    names = [f"{ROOT}.task_{i:0{max(len(str(len(task_names) - 1)), 1)}d}_{n}" for i, n in enumerate(task_names)]
    params = [{"logger_name": name, "task_name": task} for name, task in zip(names, task_names, strict=True)]
    create_loggers(os.path.join(work_dir, "logs"), params)
    return [get_logger(name) for name in names]


def _with_file(logger: logging.Logger, path: str) -> None:
    """Lets a logger write to this file, and no more to the file of an earlier session."""
    for old in [h for h in logger.handlers if isinstance(h, logging.FileHandler)]:
        logger.removeHandler(old)
        old.close()
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)[:200]


def _filled(config: Any, params: Sequence[Mapping[str, Any]], log_dir: str) -> Any:
    """The configuration with names and folders in place of their marks; entries that are named by {logger_name} once for each logger."""
    if isinstance(config, Mapping):
        made: dict[str, Any] = {}
        for key, value in config.items():
            if "{logger_name}" in key:
                for entry in params:
                    marks = {"log_dir": log_dir, **entry}
                    made[_put(key, marks)] = _marked(value, marks)
            else:
                made[key] = _filled(value, params, log_dir)
        return made
    return _marked(config, {"log_dir": log_dir})


def _marked(value: Any, marks: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {k: _marked(v, marks) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(v, marks) for v in value]
    return _put(value, marks) if isinstance(value, str) else value


def _put(text: str, marks: Mapping[str, Any]) -> str:
    for key, value in marks.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text
