"""What a handler takes and returns: annotations, parameters, conversion."""
