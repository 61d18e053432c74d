"""Wake-ups for idle workers. They save latency, but decide nothing: workers poll anyway."""
