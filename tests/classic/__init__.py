"""Short programs as the tutorials of classic TVM show them, in our own words."""
