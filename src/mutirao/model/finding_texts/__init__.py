"""The texts of findings in other languages than English."""
