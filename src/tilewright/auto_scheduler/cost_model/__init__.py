"""Cost models under their classic names."""

from tilewright.auto_scheduler.cost_model.cost_model import PythonBasedModel, RandomModel

__all__ = ["PythonBasedModel", "RandomModel"]
