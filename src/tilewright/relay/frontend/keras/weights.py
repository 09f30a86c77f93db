"""Stores of layers' weights: a live model, the groups of a weights file, or the lists of names of a legacy file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.hdf5.file import Dataset, Group
from tilewright.support.errors import ModelError, said

Array = np.ndarray[Any, Any]
Spec = Mapping[str, Any]
"""The serialised form of a model or layer, or its configuration, as decoded JSON."""


class Store:
    """The weights of one layer."""

    def take(self, names: Sequence[str]) -> list[Array]:
        """The layer's own variables of these names, in this order. Raises ModelError if one is missing."""
        raise NotImplementedError

    def child(self, attribute: str, name: str = "") -> Store:
        """The weights of the layer in an attribute; `name`: the layer's name."""
        raise NotImplementedError

    def members(self, layers: Sequence[Spec], container: str = "layers") -> list[Store]:
        """The weights of the layers in a list attribute, by their serialised forms."""
        raise NotImplementedError

    def vocabulary(self) -> list[Any] | None:
        """The tokens that a look-up layer learned, with its special ones first; None if the store has none."""
        return None


class LiveStore(Store):
    """The weights of a layer object."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def take(self, names: Sequence[str]) -> list[Array]:
        # Keras numbers unnamed variables.
        found = {re.sub(r"^variable_\d+$", "variable", v.name.rpartition("/")[2]): v for v in self.layer.weights}
        for n in names:
            # A layer does not list IDF weights among its variables.
            held = getattr(getattr(self.layer, "_lookup_layer", self.layer), n, None) if n == "idf_weights" else None
            found.update({n: held} if held is not None else {})
        missing = [n for n in names if n not in found]
        if missing:
            raise ModelError(
                f"the layer {self.layer.name!r} has no weight {missing[0]!r}, only {', '.join(found) or 'none'}."
                " Build the model first, by calling it once"
            )
        return [variable_array(found[n]) for n in names]

    def vocabulary(self) -> list[Any] | None:
        return list(self.layer.get_vocabulary())

    def child(self, attribute: str, name: str = "") -> Store:
        inner = getattr(self.layer, attribute, None)
        if inner is None:
            raise ModelError(f"the layer {self.layer.name!r} has no part {attribute!r}")
        return LiveStore(inner)

    def members(self, layers: Sequence[Spec], container: str = "layers") -> list[Store]:
        found = [*getattr(self.layer, container)]
        if container != "layers":
            return [LiveStore(x) for x in found]
        by_name = {x.name: x for x in [*found, *getattr(self.layer, "operations", [])]}
        return [LiveStore(by_name.get(name_of(spec))) for spec in layers]


def variable_array(variable: Any) -> Array:
    """A variable's elements; a view without a copy if its framework provides one."""
    value = getattr(variable, "value", variable)
    value = value() if callable(value) else value
    if hasattr(value, "detach"):
        from tilewright.relay.frontend.pytorch.dtypes import tensor_array

        return tensor_array(value)
    return np.asarray(value)


class FileStore(Store):
    """The weights of a layer in a group `path` of a `.weights.h5` file. `assets`: the archive's other files, by folder."""

    def __init__(
        self, group: Any, place: str, path: str = "", assets: Callable[[str], bytes | None] | None = None
    ) -> None:
        self.group, self.place, self.path, self.assets = group, place, path, assets

    def take(self, names: Sequence[str]) -> list[Array]:
        variables = self.group.get("vars") if self.group is not None else None
        count = len(variables) if variables is not None else 0
        if count < len(names):
            raise ModelError(
                f"the weights file has {count} of the {len(names)} weights ({', '.join(names)}) of {self.place!r}."
                " It is damaged, or of another model; save the model again"
            )
        assert variables is not None
        return [dataset_array(variables, n if n in variables else str(k), self.place) for k, n in enumerate(names)]

    def vocabulary(self) -> list[Any] | None:
        data = self.assets(f"assets{self.path}/vocabulary.txt") if self.assets is not None else None
        if data is None:
            return None
        try:
            return data.decode().split("\n")
        except UnicodeDecodeError as error:
            raise ModelError(
                f"the vocabulary of {self.place!r} is no UTF-8 ({said(error)}). The file is damaged"
            ) from None

    def child(self, attribute: str, name: str = "") -> Store:
        inner = self.group.get(attribute) if self.group is not None else None
        return FileStore(inner, f"{self.place}/{attribute}", f"{self.path}/{attribute}", self.assets)

    def members(self, layers: Sequence[Spec], container: str = "layers") -> list[Store]:
        group = self.group.get(container) if self.group is not None else None
        if group is None:
            # The first files of Keras 3 have another name for it.
            group = self.group.get(f"_{container}") if self.group is not None else None
        named = {
            str(g["vars"].attrs["name"]): (key, g)
            for key, g in _groups(group)
            if "vars" in g and "name" in g["vars"].attrs
        }
        seen: dict[str, int] = {}
        found: list[Store] = []
        for spec in layers:
            plain = snake_case(str(spec.get("class_name", "")))
            count = seen.get(plain, 0)
            seen[plain] = count + 1
            key, inner = named.get(name_of(spec), (f"{plain}_{count}" if count else plain, None))
            if inner is None and group is not None:
                inner = group.get(key)
            place = f"{self.place}/{name_of(spec)}".removeprefix("/")
            found.append(FileStore(inner, place, f"{self.path}/{container}/{key}", self.assets))
        return found


def _groups(group: Any) -> list[tuple[str, Any]]:
    return [(key, g) for key, g in group.items() if isinstance(g, Group)] if group is not None else []


DIRECTIONS = ("forward_layer", "backward_layer")
"""Attributes of a layer with two inner layers: its weights are those of the first, then those of the second."""


Entries = Sequence[tuple[tuple[str, ...], Any]]
"""Weights of a legacy file in order: (path, data)."""


def weight_names(entries: Entries) -> list[str]:
    """Names of weights in their layers."""
    return [path[-1] for path, _ in entries]


class ListStore(Store):
    """The weights of a layer in a legacy `.h5` file: a list of names like "forward_lstm/lstm_cell/kernel", each with its data."""

    def __init__(self, entries: Entries, place: str) -> None:
        self.entries, self.place = list(entries), place

    def take(self, names: Sequence[str]) -> list[Array]:
        by_name = {path[-1]: data for path, data in reversed(self.entries)}
        if all([n in by_name for n in names]):
            return [dataset_array(by_name, n, self.place) for n in names]
        if len(self.entries) < len(names):
            raise ModelError(
                f"the file has {len(self.entries)} of the {len(names)} weights ({', '.join(names)}) of {self.place!r}."
                " It is damaged, or was saved without weights; save the whole model again"
            )
        return [dataset_array(dict(self.entries), path, self.place) for path, _ in self.entries[: len(names)]]

    def child(self, attribute: str, name: str = "") -> Store:
        half = len(self.entries) // 2
        parts = self.entries[:half], self.entries[half:]
        inner = [e for e in self.entries if name in e[0][:-1]] if name else []
        if attribute in DIRECTIONS and (not inner or weight_names(parts[0]) == weight_names(parts[1])):
            # Keras uses the order of the list, not the layers' current names.
            inner = parts[DIRECTIONS.index(attribute)]
        return ListStore(inner or self.entries, f"{self.place}/{name or attribute}")

    def members(self, layers: Sequence[Spec], container: str = "layers") -> list[Store]:
        return [self.child(container, name_of(spec)) for spec in layers]


class LegacyFile(ListStore):
    """The weights of the outermost model in a legacy `.h5` file, with a group for each layer."""

    def __init__(self, group: Any) -> None:
        super().__init__([], "the model")
        self.group = group

    def members(self, layers: Sequence[Spec], container: str = "layers") -> list[Store]:
        return [self._layer(name_of(spec)) for spec in layers]

    def _layer(self, name: str) -> Store:
        group: Any = self.group.get(name) if self.group is not None else None
        entries: list[tuple[tuple[str, ...], Any]] = []
        for entry in group.attrs.get("weight_names", ()) if group is not None else ():
            path = entry.decode() if isinstance(entry, bytes) else str(entry)
            if path not in group:
                raise ModelError(f"the file names the weight {path!r} of {name!r}, but does not hold it. It is damaged")
            entries.append((tuple(re.sub(r":\d+$", "", path).split("/")), group[path]))
        return ListStore(entries, name)


def dataset_array(group: Any, key: Any, place: str) -> Array:
    """The elements of a dataset. Raises ModelError if reading it fails."""
    try:
        data = group[key]
        if not isinstance(data, Dataset):
            raise ModelError("it is a group of weights")
        array, kind = data.array(), data.attrs.get("dtype")
    except (KeyError, ModelError, MemoryError) as error:
        raise ModelError(
            f"the weight {key!r} of {place!r} cannot be read ({said(error)}). The file is damaged; copy or save it again"
        ) from None
    if kind == "bfloat16" and array.dtype == np.uint16:
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array


def name_of(spec: Spec) -> str:
    """The name of a serialised layer."""
    config = spec.get("config")
    name = spec.get("name") or (config.get("name") if isinstance(config, Mapping) else "")
    return str(name or "")


def snake_case(name: str) -> str:
    """The name in weights files of layers of a class."""
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
