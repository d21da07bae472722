"""Ahead-of-time compilation of every kernel, without a GPU and without the interpreter."""
