"""Kernels and their torch references: the arithmetic of verification, random numbers by counter, and the error root.

Importing this package imports neither torch nor Triton. It does not know the engine, the models or the views.
"""
