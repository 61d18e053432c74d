"""The store on SQL, in parts: jobs, features, brokers, webhooks, federation."""
