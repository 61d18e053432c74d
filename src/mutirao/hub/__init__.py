"""The wake-up hub: a small server that passes wake-ups on, for databases that cannot."""
