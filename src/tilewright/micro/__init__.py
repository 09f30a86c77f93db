"""Models for microcontrollers: packages of sources or objects with their parameters and metadata."""
