"""Tools for tests and evaluations of models on microcontrollers, by projects."""

from tilewright.support import lazy

lazy.declare(
    __name__,
    {
        **{n: f"{__name__}.evaluation:{n}" for n in ("create_aot_session", "predict_labels_aot", "tune_model")},
        **{n: f"{__name__}.utils:{n}" for n in ("get_supported_boards", "get_supported_platforms", "get_target")},
    },
)
# What runs models as programs of this machine, and the plugin of pytest, are a layer above.
_PLUGIN = (
    "pytest_addoption pytest_configure pytest_generate_tests pytest_collection_modifyitems microtvm_debug workspace_dir skip_by_board"
    " serial_number"
)
lazy.faces(
    __name__,
    {
        "aot_test_utils": [
            f"tilewright.testing.aot:{name}" for name in ("AOT_DEFAULT_RUNNER", "parametrize_aot_options")
        ],
        "pytest_plugin": [f"tilewright.testing.micro_plugin:{name}" for name in _PLUGIN.split()],
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
