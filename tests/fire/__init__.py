"""Proof under fire: load, faults, recorded histories, and checks that find what is wrong. See docs/guarantees.md."""
