"""The files in deploy name settings, paths, commands and routes that exist. Nothing here needs a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from penstock.config import Settings
from penstock.config.settings import KNOWN

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
VARIABLES = {found.variable for found in KNOWN.values()} | {
    name for found in KNOWN.values() for name in found.variables
}


def files() -> list[Path]:
    return sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_is_a_setting(path: Path) -> None:
    text = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"PENSTOCK_[A-Z_]+", text)) <= VARIABLES


def environment(found: Any) -> dict[str, str]:
    return {name: re.sub(r"\$\{(\w+):[?-]([^}]*)\}", r"\2", str(value)) for name, value in found.items()}


def load(variables: dict[str, str]) -> Settings:
    return Settings.load({}, variables, {})


def test_the_image_runs_as_a_user_without_privileges_and_checks_its_health() -> None:
    stage = DOCKERFILE.rpartition("FROM ")[2]
    assert stage.index("USER penstock") < stage.index('ENTRYPOINT ["penstock"]')
    assert "/readyz" in stage[stage.index("HEALTHCHECK") :]
    assert 'CMD ["serve"]' in stage
    # A container without the extra would refuse to export traces, and nobody can add it there.
    assert DOCKERFILE.count("[embedded,otel]'") == 2
    settings = load(dict(re.findall(r"(PENSTOCK_\w+)=(\S+)", stage)))
    assert (settings.store, settings.auth_mode, settings.port) == ("embedded", "token", 9324)
    for source in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE):
        assert all((ROOT / name).exists() for name in source.split())


def test_an_image_can_be_an_open_endpoint_only_when_that_is_said_explicitly() -> None:
    variables = {"PENSTOCK_ADDRESS": "0.0.0.0:9324", "PENSTOCK_MEMORY": "1", "PENSTOCK_AUTH": "open"}
    with pytest.raises(Exception, match="refusing"):
        load(variables)
    assert load({**variables, "PENSTOCK_ALLOW_OPEN": "1"}).auth_mode == "open"


@pytest.mark.parametrize("name", ["node1", "node2"])
def test_the_nodes_of_compose_have_valid_settings(name: str) -> None:
    node = COMPOSE["services"][name]
    settings = load({"PENSTOCK_ADDRESS": "0.0.0.0:9324", **environment(node["environment"])})
    assert (settings.store, settings.auth_mode) == ("postgres", "token")
    assert (DEPLOY / node["build"]["context"]).resolve() == ROOT
    assert (ROOT / node["build"]["dockerfile"]).exists()
    assert int(node["stop_grace_period"].removesuffix("s")) > settings.drain_s


def test_compose_mounts_files_that_exist_and_publishes_on_loopback_only() -> None:
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), (name, volume)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for other in service.get("depends_on", ()):
            assert other in COMPOSE["services"]


def test_prometheus_and_the_proxy_know_every_node() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    [scrape] = config["scrape_configs"]
    [secret] = COMPOSE["services"]["prometheus"]["secrets"]
    assert scrape["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}
    assert secret in COMPOSE["secrets"]
    nodes = [f"{name}:9324" for name in COMPOSE["services"] if name.startswith("node")]
    assert scrape["static_configs"] == [{"targets": nodes}]
    proxy = (DEPLOY / "proxy" / "Caddyfile").read_text()
    assert " ".join(nodes) in proxy
    assert "lb_try_duration" in proxy, "requests would fail while a node is replaced"
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    assert all({"alert", "expr", "for", "labels", "annotations"} == rule.keys() for rule in rules["groups"][0]["rules"])


def test_the_unit_of_systemd_is_valid(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "penstock.service").read_text()
    assert load(dict(re.findall(r"(PENSTOCK_\w+)=(\S+)", unit))).store == "embedded"
    found = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > Settings.drain_s
    # A PostgreSQL that got the signal too would end the requests that are still running.
    assert "\nKillMode=mixed\n" in unit
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    # The program and the account of an installation do not exist here.
    tried = unit.replace("/usr/local/bin/penstock", sys.executable).replace("User=penstock\n", "")
    (tmp_path / "penstock.service").write_text(tried)
    done = subprocess.run(
        [program, "verify", str(tmp_path / "penstock.service")], capture_output=True, text=True, timeout=60
    )
    assert [line for line in done.stderr.splitlines() if "penstock.service" in line] == []
    exposed = subprocess.run(
        [program, "security", "--offline=true", "--threshold=40", str(tmp_path / "penstock.service")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    # Started by root here, and so without the account of the unit.
    assert exposed.returncode == 0, exposed.stdout
