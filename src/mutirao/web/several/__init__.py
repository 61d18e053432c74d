"""Several databases in one dashboard: which there are, and the pages of each."""
