"""What external compilers tell of operators: tables of the patterns that they take."""

from tilewright.relay.op.contrib.register import KNOWN, get_pattern_table, register_pattern_table
from tilewright.support import lazy

lazy.declare(__name__, {name: f"{__name__}.{name}" for name in KNOWN})
lazy.declare(__name__, {f"partition_for_{name}": f"{__name__}.{name}:partition_for_{name}" for name in KNOWN})
__getattr__ = lazy.resolver(__name__)

__all__ = ["get_pattern_table", "register_pattern_table"]
