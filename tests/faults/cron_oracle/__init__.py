"""The rule of docs/schedules.md written a second time, slowly, to be compared with the package's.

It shares nothing with `mutirao.model.schedules.cron`: cron lines are read here, and zones are asked
for nothing but what their clocks show at a moment, minute by minute.
"""
