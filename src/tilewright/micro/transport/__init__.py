"""Lines of bytes to devices."""

from tilewright.support import lazy

lazy.declare(
    __name__,
    {
        **{
            name: f"{__name__}.base:{name}"
            for name in ("Transport", "TransportContextManager", "TransportLogger", "debug_transport_timeouts")
        },
        "SerialTransport": f"{__name__}.serial:SerialTransport",
        "SubprocessTransport": f"{__name__}.subprocess:SubprocessTransport",
        **{
            name: f"tilewright.micro.project_api.server:{name}"
            for name in ("IoTimeoutError", "TransportClosedError", "TransportTimeouts")
        },
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
