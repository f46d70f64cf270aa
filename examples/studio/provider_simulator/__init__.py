"""A simulated provider of GPU work: a real HTTP server on the loopback interface that speaks the APIs of Replicate,
fal and RunningHub, and a plain one of its own.

It does real work on real pictures, takes its time, calls back, and misbehaves when it is told to. README.md says how.
"""
