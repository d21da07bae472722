"""Tests of the key/value caches against a plain list of tokens."""
