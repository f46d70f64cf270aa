"""Simulates an application before it is changed: traffic, recorded or made up, goes through the real rules."""
