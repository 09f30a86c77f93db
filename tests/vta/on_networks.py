"""Networks on accelerators, equal to the bit to the CPU: `make test-vta-networks`.

    python -m tests.vta.on_networks --configurations 20 --forms relay onnx tflite --log build/vta_networks.jsonl
    python -m tests.vta.on_networks --networks ResNet-18 --full --target tsim

With --log, what a file has as equal is not run again, so an interrupted run goes on where it was. What other sources, or other native
libraries, had as equal is run again."""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.vta.networks import FORMS, NETWORKS, compared_with, network, reference
from tilewright.relay.backend.keys import package_digest, sources_digest
from tilewright.runtime.libinfo import find_lib_path
from tilewright.support.errors import TVMError
from tilewright.vta.environment import Environment
from tilewright.vta.libinfo import find_libvta


def configurations(count: int, seed: int) -> list[dict[str, Any]]:
    """The classic one, then random ones: blocks of 4 to 64, memories of 8 KB to 2 MB, batches of 1 to 4. Memories hold some elements."""
    rng = random.Random(seed)
    found: list[dict[str, Any]] = [{}]
    while len(found) < count:
        block, batch = rng.choice([4, 8, 16, 32, 64]), rng.choice([1, 1, 2, 3, 4])
        kilobytes = {m: rng.choice([8, 16, 24, 32, 64, 128, 256, 512, 1024, 2048]) for m in ("INP", "WGT", "ACC")}
        least = {"INP": batch * block * 64, "WGT": block * block * 2, "ACC": batch * block * 4 * 32}
        sizes = {m: max(size << 10, least[m]) // least[m] * least[m] for m, size in kilobytes.items()}
        found.append({"BLOCK": block, "BATCH": batch, **{f"{m}_BUFF_SIZE": size for m, size in sizes.items()}})
    return found[:count]


class Case(NamedTuple):
    """A network in a form on an accelerator."""

    name: str
    form: str
    env: Environment

    def key(self, given: argparse.Namespace) -> str:
        """What a log knows it by."""
        size = "full" if given.full else "small"
        return f"{self.name} {self.form} {size} {self.env.MODEL} {given.seed} {code_digest()}"


@cache
def code_digest() -> str:
    """A digest of all that a result depends on: the package, the native libraries, and these tests with their networks."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (package_digest(), sources_digest(Path(__file__).parent, ("",))):
        digest.update(part.encode())
    for library in (*find_lib_path(), *(find_libvta() or ())):
        digest.update(Path(library).read_bytes())
    return digest.hexdigest()


def outcome(case: Case, given: argparse.Namespace, made: dict[Any, Any]) -> dict[str, Any]:
    """What a log says of a case. made: the networks that there are."""
    which = case.name, case.form, case.env.BATCH
    try:
        if which not in made:
            made.clear()
            made[which] = reference(network(case.name, case.form, case.env.BATCH, given.full), given.seed)
        found = compared_with(made[which], case.env)
    except TVMError as error:
        return {"result": str(error).splitlines()[-1]}
    return {**found._asdict(), "result": "equal" if found.equal else "DIFFERS"}


def cases(given: argparse.Namespace) -> list[Case]:
    """Networks outside, then batches, so that each is made once. In full size a batch is of one picture."""
    fields = [{**f, "TARGET": given.target} for f in configurations(given.configurations, given.seed)]
    if given.full:
        fields = [{**f, "BATCH": 1} for f in fields]
    environments = sorted([Environment(f) for f in fields], key=lambda env: env.BATCH)
    return [Case(name, form, env) for form in given.forms for name in given.networks for env in environments]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), metavar="NAME")
    options.add_argument("--forms", nargs="+", default=["relay"], choices=FORMS)
    options.add_argument("--configurations", type=int, default=1)
    options.add_argument("--target", default="sim", choices=["sim", "tsim"], help="tsim counts cycles")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--full", action="store_true", help="networks in full size, whose batch is 1")
    options.add_argument("--log", type=Path, help="a file of lines of JSON, one for each case")
    given = options.parse_args()
    lines = given.log.read_text().splitlines() if given.log is not None and given.log.exists() else []
    right = {r["case"] for r in map(json.loads, lines) if r["result"] == "equal"}
    wanted = cases(given)
    todo = [c for c in wanted if c.key(given) not in right]
    print(f"{len(wanted)} cases, of which {len(wanted) - len(todo)} are known to be equal")
    print(f"{'network':<13}{'form':<8}{'accelerator':<44}{'kernels':>8}{'compile s':>11}{'run s':>8}  result")
    wrong, made, begin = 0, {}, time.perf_counter()
    for n, case in enumerate(todo):
        found = outcome(case, given, made)
        wrong += found["result"] != "equal"
        share = f", {found['steps'] / found['cycles']:.3f} of the peak" if found.get("cycles") else ""
        numbers = (
            f"{found['kernels']:>8}{found['compile_seconds']:>11.1f}{found['run_seconds']:>8.2f}"
            if "kernels" in found
            else " " * 27
        )
        left = (time.perf_counter() - begin) / (n + 1) * (len(todo) - n - 1) / 60
        print(
            f"{case.name:<13}{case.form:<8}{case.env.BITSTREAM:<44}{numbers}  {found['result']}{share}"
            f"  ({n + 1} of {len(todo)}, {left:.0f} min left)",
            flush=True,
        )
        if given.log is not None:
            with given.log.open("a") as log:
                log.write(json.dumps({"case": case.key(given), **found}) + "\n")
    print(f"{len(wanted) - wrong} of {len(wanted)} are equal to the CPU")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
