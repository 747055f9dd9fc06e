"""The process that owns the workers of one node; standard library only, Python 3.9."""
