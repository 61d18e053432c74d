"""The rules of jobs for all databases: lock rows, ask the rule in `mutirao.model`, write.

They are steps over small statements, whose SQL comes from the dialect (`words`). Each feature has a
file with its name in `mutirao.model`. `LockAskWrite` combines them; a dialect may have functions of
its own instead (`Rules`).
"""
