"""The rules of the product, as plain functions over plain values.

Nothing in this package does I/O, reads a clock, draws a random number or knows SQL. Instants are whole
microseconds since the Unix epoch and end in `_at`; identifiers, jitter and `now` come from outside.
"""
