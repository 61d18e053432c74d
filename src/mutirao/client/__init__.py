"""The application's interface to jobs, graphs, limits and schedules, to read and to change them."""
