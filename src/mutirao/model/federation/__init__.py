"""Values and rules of federation."""
