"""A shop in Django that takes orders while workers are killed, and what came of them counted."""
