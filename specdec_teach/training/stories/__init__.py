"""The story generator: endless small picture-book tales with a mark on every fact told twice.

Invariant: the same seed gives the same story, letter for letter.
Does not know: tokens, models or files - only letters and marks.
"""
