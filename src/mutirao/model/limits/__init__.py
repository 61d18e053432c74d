"""Values and decisions of limits and of fairness."""
