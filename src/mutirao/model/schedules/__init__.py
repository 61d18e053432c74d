"""Values and rules of schedules."""
