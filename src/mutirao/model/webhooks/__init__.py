"""Values and rules of endpoints and webhooks."""
