"""A web page that recognises drawn digits: trains a network, compiles it for WebAssembly, and writes and serves the page.

Run: python examples/browser/make_site.py --serve. The site is a folder of files, as any web server can serve them.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
from pathlib import Path

import tilewright as tvm
from tilewright import relay
from tilewright.deploy.machines import machine_of
from tilewright.deploy.native_build import build_runtime

HERE = Path(__file__).resolve().parent
TARGET = "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128"


def write_model(path: Path, epochs: int) -> float:
    """Trains the network of examples/train_digits.py and compiles it; its accuracy."""
    sys.path.insert(0, str(HERE.parent))
    import train_digits

    weights, accuracy = train_digits.train(epochs, log=lambda text: None)
    picture = relay.var("picture", shape=(1, 64))
    scores = relay.nn.softmax(train_digits.network(picture, [relay.const(w) for w in weights]))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(relay.Function([picture], scores)), TARGET)
    library.export_library(path)
    return accuracy


def write_site(folder: Path, epochs: int = 20) -> None:
    """The page, the JavaScript package and the model."""
    build_runtime(machine_of("wasm32"), folder / "tilewright")
    for name in ("index.html", "page.js"):
        shutil.copy(HERE / name, folder / name)
    accuracy = write_model(folder / "digits.wasm", epochs)
    print(f"{folder}: a network that is right in {100 * accuracy:.1f} % of pictures it has not seen")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files, with the headers that a page needs to have threads."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


def serve(folder: Path, port: int) -> None:
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("site"), help="the folder to write to (default: site)"
    )
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training set (default: 20)")
    parser.add_argument("--serve", action="store_true", help="serve the folder afterwards, to this machine alone")
    parser.add_argument("--port", type=int, default=8000, help="the port (default: 8000; 0: any free one)")
    options = parser.parse_args()
    write_site(options.output, options.epochs)
    if options.serve:
        serve(options.output, options.port)


if __name__ == "__main__":
    main()
