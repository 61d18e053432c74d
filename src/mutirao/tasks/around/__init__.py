"""Code around jobs: middleware, hooks and factories."""
