"""Faults: the plan of a run, and what each fault does to servers, PostgreSQL and the network."""
