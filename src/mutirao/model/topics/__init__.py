"""Values and rules of topics and subscriptions."""
