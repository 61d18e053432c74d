"""Programs that the tests of workers run as processes of their own."""
