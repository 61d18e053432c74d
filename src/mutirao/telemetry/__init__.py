"""Telemetry: what monitoring systems are told. Each part needs its own package, if any."""
