"""Brokers that carry jobs to workers: the implementations of `ports.Transport`."""
