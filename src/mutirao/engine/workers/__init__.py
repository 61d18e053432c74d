"""What a process starts and stops: workers of databases, of brokers, of both."""
