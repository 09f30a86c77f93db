"""Tables of the operator patterns that external compilers accept."""

from tilewright.relay.op.contrib.register import KNOWN, get_pattern_table, register_pattern_table
from tilewright.support import lazy

lazy.declare_modules(__name__)
lazy.declare(__name__, {f"partition_for_{name}": f"{__name__}.{name}:partition_for_{name}" for name in KNOWN})
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["get_pattern_table", "register_pattern_table"]
