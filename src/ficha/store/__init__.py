"""Stores load rows and write rows. They hold no rule: what may happen is decided in `ficha.core`."""
