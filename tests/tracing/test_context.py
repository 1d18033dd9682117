"""Trace contexts in the forms in which messages carry them, and settings that cannot be met."""

from __future__ import annotations

import pytest

from penstock.config import Settings, SettingsError
from penstock.server import telemetry
from penstock.tracing import TraceContext, context_of
from penstock.tracing.spans import traces_url

CONTEXT = TraceContext("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8")
HEADER = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
W3C = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"


def test_amazons_header_has_the_same_ids() -> None:
    assert CONTEXT.aws_header == HEADER
    assert TraceContext.parse_aws(HEADER) == CONTEXT
    assert TraceContext.parse_aws(f"Lineage=1:2|3;{HEADER}") == CONTEXT
    unsampled = TraceContext.parse_aws(HEADER.replace("Sampled=1", "Sampled=0"))
    assert unsampled is not None
    assert not unsampled.sampled


@pytest.mark.parametrize("text", [None, "", "x", "Root=1-5759e988-bd862e3fe1be46a994272793", HEADER.upper()])
def test_a_header_without_a_parent_names_no_span(text: str | None) -> None:
    assert TraceContext.parse_aws(text) is None


@pytest.mark.parametrize(
    ("trace", "attributes", "headers"),
    [
        (HEADER, None, None),
        (W3C, None, None),
        ("Root=1-67891233-abcdef012345678912345678", f'{{"traceparent":{{"type":"String","value":"{W3C}"}}}}', None),
        (None, None, f'{{"traceparent":"{W3C}"}}'),
        (None, None, f'{{"_schedule":{{"name":"x","traceparent":"{W3C}"}}}}'),
    ],
)
def test_a_message_carries_its_trace(trace: str | None, attributes: str | None, headers: str | None) -> None:
    assert context_of(trace, attributes, headers) == CONTEXT


@pytest.mark.parametrize("headers", ['["traceparent"]', '{"traceparent":1}', '{"traceparent":', '{"a":"traceparent"}'])
def test_other_texts_are_not_traces(headers: str) -> None:
    assert context_of(None, headers, headers) is None


def test_a_server_without_opentelemetry_refuses_to_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_installed", lambda: False)
    telemetry.check_traces(Settings.load())
    with pytest.raises(SettingsError, match=r"install penstock\[otel\]"):
        telemetry.check_traces(Settings.load(environment={"OTLP_ENABLED": "true"}))


def test_the_path_of_traces_is_added_to_an_address() -> None:
    assert traces_url("http://localhost:4318") == "http://localhost:4318/v1/traces"
    assert traces_url("http://collector/custom") == "http://collector/custom"


def test_a_receiver_with_http_at_the_port_of_grpc_is_used_when_the_protocol_is_named() -> None:
    given = {"OTLP_ENABLED": "true", "OTLP_ENDPOINT": "http://collector:4317"}
    with pytest.raises(SettingsError, match="use 4318"):
        Settings.load(environment=given)
    assert Settings.load(environment={**given, "OTLP_PROTOCOL": "http/protobuf"}).otlp_endpoint.endswith(":4317")
    assert Settings.load(environment={**given, "OTLP_ENABLED": "false"}).otlp_endpoint.endswith(":4317")
