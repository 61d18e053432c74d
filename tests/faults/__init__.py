"""Five machines that look for faults, and the kit that they share.

`docs/contributing/faults.md` says which of them finds what.
"""
