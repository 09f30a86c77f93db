"""Programs that run as `python -m tilewright.exec.<name>`, under the names of classic TVM."""
