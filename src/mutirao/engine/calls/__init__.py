"""How one handler is called: in the loop, a thread or a process; its outcome."""
