"""What becomes of jobs, written once: lock, ask the rule in `mutirao.model`, write.

In steps, over small statements whose words are the dialect's (`words`). A file for each feature, by
the names of `mutirao.model`. `LockAskWrite` puts them together; a dialect may have functions of its
own instead (`Rules`).
"""
