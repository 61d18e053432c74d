"""The differences between databases; nothing outside this package asks which one it is."""
