"""What a language cannot express."""


class Refused(Exception):
    """A language cannot express something. The text says what, and what to do."""


__all__ = ["Refused"]
