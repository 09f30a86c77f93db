"""TFLite models made operator by operator, for tests: a writer over the schema, LiteRT's answer, and ours."""

from __future__ import annotations
