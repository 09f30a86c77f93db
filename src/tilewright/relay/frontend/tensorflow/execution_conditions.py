"""Control flow of TensorFlow 1: the frame of each node, and the conditions under which it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.formats.tensorflow_messages import Message

SWITCHES = ("Switch", "RefSwitch", "_SwitchN")


class Plan:
    """The control flow of a graph's nodes, computed at first use."""

    def __init__(self, nodes: Mapping[str, Message]) -> None:
        self.nodes = nodes
        self.frames: dict[str, list[Any]] = {}
        self.readers: dict[str, list[Any]] = {}
        self.ways: dict[str, dict[str, int]] = {}
        if any([n.op in (*SWITCHES, "Merge", "Enter", "RefEnter") for n in nodes.values()]):
            for node in nodes.values():
                if node.op in ("Enter", "RefEnter"):
                    self.frames.setdefault(node.attr["frame_name"].s.decode(errors="replace"), []).append(node)
                for ref in node.input:
                    self.readers.setdefault(split_ref(ref)[0], []).append(node)

    def loop_merges(self, frame: str) -> list[Any]:
        """The Merge nodes at the start of a frame's rounds."""
        enters = {e.name for e in self.frames[frame]}
        found = {
            n.name: n for e in self.frames[frame] for n in self.readers.get(e.name, ()) if n.op in ("Merge", "RefMerge")
        }
        return [n for n in found.values() if any([split_ref(r)[0] in enters for r in n.input])]

    def is_loop_merge(self, node: Message) -> bool:
        """Whether a Merge is the head of a loop (else it is the end of a branch)."""
        sources = [self.nodes.get(split_ref(r)[0]) for r in node.input]
        return any([s is not None and s.op in ("NextIteration", "RefNextIteration") for s in sources])

    def condition(self, name: str) -> dict[str, int]:
        """The conditions under which a node runs: predicate -> 0 or 1. A Merge drops conditions that differ between its inputs."""
        waiting = [name]
        while waiting:
            at = waiting[-1]
            if at in self.ways:
                waiting.pop()
                continue
            node = self.nodes.get(at)
            if node is None or node.op in ("NextIteration", "RefNextIteration", "Exit", "RefExit"):
                self.ways[at] = {}
                continue
            sources = [split_ref(r) for r in node.input]
            missing = [s for s, _ in sources if s not in self.ways]
            if missing and not any([m in waiting for m in missing]):
                waiting += missing
                continue
            self.ways[at] = self._way(node, sources)
        return self.ways[name]

    def _way(self, node: Message, sources: Sequence[tuple[str, int]]) -> dict[str, int]:
        each = []
        for source, output in sources:
            way = dict(self.ways.get(source, {}))
            from_node = self.nodes.get(source)
            if from_node is not None and from_node.op in SWITCHES and output >= 0:
                way[self.root(from_node.input[1])] = output
            each.append(way)
        if node.op in ("Merge", "RefMerge"):
            data = each[: len([o for _, o in sources if o >= 0])]
            return {k: v for k, v in data[0].items() if all([d.get(k) == v for d in data])} if data else {}
        return {k: v for way in each for k, v in way.items()}

    def root(self, ref: str) -> str:
        """The tensor of a predicate, without identities."""
        name, output = split_ref(ref)
        node = self.nodes.get(name)
        while node is not None and node.op in ("Identity", "RefIdentity") and node.input:
            name, output = split_ref(node.input[0])
            node = self.nodes.get(name)
        return f"{name}:{output}"


def split_ref(ref: str) -> tuple[str, int]:
    """(node, output) of "node", "node:1" or "^node" (output -1). References in functions have another form: "node:name:1"."""
    if ref.startswith("^"):
        return ref[1:], -1
    name, _, rest = ref.partition(":")
    return name, int(rest.rpartition(":")[2] or 0) if rest else 0
