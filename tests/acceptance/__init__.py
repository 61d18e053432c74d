"""What users are promised, tried on whole programs that are killed and crashed meanwhile."""
