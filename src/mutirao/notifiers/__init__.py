"""Wake-ups. They may save latency, but decide nothing: workers poll anyway."""
