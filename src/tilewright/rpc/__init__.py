"""Remote procedure calls: modules, functions and arrays of another process or machine, used as if they were here.

server = rpc.Server(host="127.0.0.1", key="board")          # there
remote = rpc.connect("127.0.0.1", server.port, key="board")  # here
remote.upload("model.so")
module = remote.load_module("model.so")
model = graph_executor.GraphModule(module["default"](remote.cpu()))
"""

from tilewright.rpc.base import RPC_SESS_MASK
from tilewright.rpc.client import LocalSession, PopenSession, RPCSession, TrackerSession, connect, connect_tracker
from tilewright.rpc.limits import Limits
from tilewright.rpc.minrpc import with_minrpc
from tilewright.rpc.proxy import Proxy
from tilewright.rpc.server import Server
from tilewright.rpc.tracker import Tracker
from tilewright.support import lazy

__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "RPC_SESS_MASK",
    "Limits",
    "LocalSession",
    "PopenSession",
    "Proxy",
    "RPCSession",
    "Server",
    "Tracker",
    "TrackerSession",
    "connect",
    "connect_tracker",
    "with_minrpc",
]
