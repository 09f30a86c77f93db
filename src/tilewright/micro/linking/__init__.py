"""Objects for microcontrollers: read, placed into a device's memory, and relocated there, in this process."""
