"""Benchmarks that can be trusted: everything that is compared runs in turn, in one process, on the same work.

`suites` says what is run, `race` runs it, `figures` turns seconds into ratios, `records` holds the report, `table` and
`chart` show it, `gate` compares it with a stored one. Importing this package loads nothing.
"""
