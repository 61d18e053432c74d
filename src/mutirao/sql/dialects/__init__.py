"""The differences between databases; no code outside this package asks which one it is."""
