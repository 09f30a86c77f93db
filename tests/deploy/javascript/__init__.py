"""The JavaScript package: what `make test-browser` runs in node and in a browser."""
