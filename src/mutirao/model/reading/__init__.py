"""What pages show beside single jobs: figures, and why a job does not run."""
