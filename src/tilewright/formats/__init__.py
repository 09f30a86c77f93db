"""Formats of files that others write. Readers trust no offset; they know nothing of the compiler."""
