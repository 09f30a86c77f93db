"""The execution plan of a program: which kernel runs when, where its tensors lie, and the entry that runs it."""
