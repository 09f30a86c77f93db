"""Random programs that several rooms test with."""
