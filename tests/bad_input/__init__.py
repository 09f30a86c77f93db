"""What a user gets to read when the input is wrong: the full text of each message."""
