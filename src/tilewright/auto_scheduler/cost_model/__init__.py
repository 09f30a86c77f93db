"""Cost models under their classic names."""

from tilewright.auto_scheduler.cost_model.cost_model import PythonBasedModel, RandomModel
from tilewright.support import lazy

__all__ = ["PythonBasedModel", "RandomModel"]
lazy.declare(__name__, {"XGBModel": f"{__name__}.xgb_model:XGBModel"})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
