"""Requests and answers of the HTTP API, one module per namespace of the client. Nothing here does input or output."""
