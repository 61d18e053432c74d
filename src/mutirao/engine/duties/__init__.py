"""Work that equal workers share: housekeeping, schedules, declarations."""
