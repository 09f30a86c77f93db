"""The test suite; each folder is the room that it tests."""
