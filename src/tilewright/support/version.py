"""The version of the package, for those below its top."""

VERSION = "0.1.0"
