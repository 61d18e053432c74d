"""What the programs share that set workers to work and trouble them: `chaos` and `ordeal`."""
