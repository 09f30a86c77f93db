"""Programs for the accelerator: cycles by its simulator, and the time that compiling and simulating take."""
