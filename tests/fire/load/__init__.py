"""Load: clients that send, receive, work and consume through every door, and write down what they saw."""
