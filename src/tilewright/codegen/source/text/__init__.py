"""What writers of C-like languages share: operands, identifiers, blocks of lines, rules for scalars, offsets of elements, loops."""
