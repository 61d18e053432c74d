"""What applications and third-party backends test with.

`memory` holds a store without a database, `conformance` the suites every backend passes.
"""
