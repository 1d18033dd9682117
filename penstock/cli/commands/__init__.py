"""The commands, by what they act on. Each asks the REST API, over HTTP or in this process on a database."""
