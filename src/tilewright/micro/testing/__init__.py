"""Tools for tests and evaluations of models on microcontrollers, by projects."""

from tilewright.support import lazy

lazy.declare(
    __name__,
    {
        **{n: f"{__name__}.evaluation:{n}" for n in ("create_aot_session", "predict_labels_aot", "tune_model")},
        **{n: f"{__name__}.utils:{n}" for n in ("get_supported_boards", "get_supported_platforms", "get_target")},
    },
)
# What runs models as programs of this machine is a layer above.
lazy.faces(
    __name__,
    {
        "aot_test_utils": [
            f"tilewright.testing.aot:{name}" for name in ("AOT_DEFAULT_RUNNER", "parametrize_aot_options")
        ]
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
