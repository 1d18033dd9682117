"""Ready-made pipelines: each a frozen dataclass of its settings with a method `run`, run by `run_pipeline`."""
