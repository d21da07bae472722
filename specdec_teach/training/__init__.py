"""Everything that makes the embedded pair: stories, tokens, training, distillation, measuring.

Invariant: nothing here is needed to *use* the pair; the package runs from the shipped weights.
Does not know: notebooks, lessons or the decoding engine.
"""
