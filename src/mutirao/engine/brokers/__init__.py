"""Queues of brokers: received, decoded, run and settled; doorbells; the relay."""
