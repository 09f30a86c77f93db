"""The errors a user can meet, named as in classic `tvm.error`, and the one that only we should meet."""

from __future__ import annotations


class TVMError(RuntimeError):
    """Root of every error raised on purpose; its text says what, where and how to mend it."""


class InternalError(TVMError):
    """A rule inside the compiler was broken; never the user's fault."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a defect of the compiler, not of your program: please report it with the program above."
        )


class DiagnosticError(TVMError):
    """One or more located findings about a program."""


class DepthError(TVMError, RecursionError):
    """Calls of a program nest deeper than the limit."""


class ScheduleError(TVMError):
    """A schedule primitive was refused."""


class RPCError(TVMError):
    """A remote session failed."""


class OpError(TVMError):
    """Root of the errors about one operator of a model."""


class OpNotImplemented(OpError, NotImplementedError):
    """The operator, or this form of it, is not supported."""


class OpNotEnabled(OpError, NotImplementedError):
    """The operator is known, but not to this target or build."""


class OpAttributeRequired(OpError, AttributeError):
    """A required attribute of an operator is missing."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute of an operator has a value that it cannot have."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute of an operator has a value that is not supported."""


class ModelWarning(UserWarning):
    """A model says something of itself that is not so; what it computes follows from its operators."""
