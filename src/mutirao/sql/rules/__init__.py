"""The rules of jobs for all databases: lock rows, ask the rule in `mutirao.model`, write.

They are steps over small statements, whose SQL the dialect gives (`words`). Each feature has a file
with the name that it has in `mutirao.model`. `LockAskWrite` puts them together; a dialect may have
functions of its own instead (`Rules`).
"""
