"""The signatures of handlers: annotations, parameters, conversion of arguments and results."""
