"""External code generators: what they are given, and what is built of their code."""
