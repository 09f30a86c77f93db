"""Models from the network, and the option by which importers record where operators come from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tilewright.contrib.download import download_testdata
from tilewright.driver import tvmc
from tilewright.ir.transform import PassContext
from tilewright.support.errors import TVMError


def fetch_model_from_url(url: str, model_format: str, sha256: str) -> tuple[Any, Any]:
    """(module, parameters) of a model file, which is downloaded once. model_format: as `tvmc.load` takes it. Raises TVMError unless the
    file has this digest."""
    path = download_testdata(url, url.rpartition("/")[2], module="tvm_models")
    found = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if found != sha256:
        raise TVMError(f"the file of {url} has the SHA-256 digest {found}, but it must be {sha256}")
    model = tvmc.load(path, model_format)
    return model.mod, model.params


def install_request_hook(depth: int) -> None:
    """Does nothing. Scripts of TVM's documentation begin with it; the machines that test them send downloads elsewhere. depth: how far
    the script lies below the root of the sources."""


class _SpanFilling:
    fill = True

    def __init__(self) -> None:
        self.context: PassContext | None = None

    def __enter__(self) -> None:
        current = PassContext.current()
        self.context = PassContext(
            opt_level=current.opt_level, config={**current.config, "relay.frontend.fill_span": self.fill}
        )
        self.context.__enter__()

    def __exit__(self, *error: Any) -> None:
        assert self.context is not None
        self.context.__exit__(*error)


class enable_span_filling(_SpanFilling):
    """In `with enable_span_filling():`, importers record in spans which node of a model an operator comes from."""


class disable_span_filling(_SpanFilling):
    """In `with disable_span_filling():`, importers record no spans."""

    fill = False
