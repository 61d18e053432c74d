"""Values of messages that brokers carry."""
