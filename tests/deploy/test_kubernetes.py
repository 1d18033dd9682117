"""The manifests for Kubernetes: complete objects that refer to each other, and settings that the server accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from penstock.cli import command_line
from penstock.config import Settings

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSIONS = {
    "ServiceAccount": "v1",
    "ConfigMap": "v1",
    "Service": "v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
    "Ingress": "networking.k8s.io/v1",
}
"""The versions of the kinds used here that Kubernetes 1.25 and later serve."""
DEPLOYMENT = {"replicas", "strategy", "selector", "template"}
STATEFUL = {"serviceName", "replicas", "selector", "template", "volumeClaimTemplates"}
POD = {
    *("serviceAccountName", "automountServiceAccountToken", "enableServiceLinks", "terminationGracePeriodSeconds"),
    *("securityContext", "topologySpreadConstraints", "containers", "volumes"),
}
CONTAINER = {
    *("name", "image", "ports", "env", "envFrom", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle"),
    *("resources", "volumeMounts", "securityContext"),
}


def objects(name: str) -> dict[str, Any]:
    found = list(yaml.safe_load_all((FOLDER / name).read_text()))
    kinds = {one["kind"]: one for one in found}
    assert len(kinds) == len(found)
    return kinds


@pytest.fixture(params=["penstock.yaml", "embedded.yaml"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    return objects(request.param)


def workload(found: dict[str, Any]) -> Any:
    return found.get("Deployment") or found["StatefulSet"]


def container(found: dict[str, Any]) -> Any:
    [one] = workload(found)["spec"]["template"]["spec"]["containers"]
    return one


def test_every_object_is_of_a_known_kind_and_has_known_fields(found: dict[str, Any]) -> None:
    for kind, one in found.items():
        assert one["apiVersion"] == VERSIONS[kind]
        assert one["metadata"]["name"] == "penstock"
    spec = workload(found)["spec"]
    assert spec.keys() <= (DEPLOYMENT if "Deployment" in found else STATEFUL)
    assert spec["template"]["spec"].keys() <= POD
    assert container(found).keys() <= CONTAINER


def test_selectors_ports_volumes_and_references_fit(found: dict[str, Any]) -> None:
    spec, one = workload(found)["spec"], container(found)
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    assert ports == {"http": 9324}
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports.keys()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert one[probe]["httpGet"] == {"path": "/livez" if probe == "livenessProbe" else "/readyz", "port": "http"}
    claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
    volumes = {volume["name"] for volume in spec["template"]["spec"].get("volumes", ())} | claims
    assert {mount["name"] for mount in one["volumeMounts"]} == volumes
    for source in one.get("envFrom", ()):
        assert source["configMapRef"]["name"] == found["ConfigMap"]["metadata"]["name"]


def test_pods_have_no_privileges_and_stop_in_time(found: dict[str, Any]) -> None:
    pod, one = workload(found)["spec"]["template"]["spec"], container(found)
    assert pod["securityContext"]["runAsNonRoot"]
    dockerfile = (FOLDER.parent / "Dockerfile").read_text()
    assert f"--uid {pod['securityContext']['runAsUser']} " in dockerfile
    assert one["securityContext"]["allowPrivilegeEscalation"] is False
    assert one["securityContext"]["readOnlyRootFilesystem"]
    assert "/tmp" in {mount["mountPath"] for mount in one["volumeMounts"]}
    assert one["resources"]["requests"].keys() == {"cpu", "memory"}
    assert one["resources"]["limits"].keys() == {"memory"}
    assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["enableServiceLinks"] is False
    assert pod["terminationGracePeriodSeconds"] > settings(found).drain_s + 5


def settings(found: dict[str, Any]) -> Settings:
    variables = dict(found.get("ConfigMap", {}).get("data", {}))
    for variable in container(found)["env"]:
        variables[variable["name"]] = variable.get("value", "postgresql://user@host/database")
    return Settings.load({}, variables, {})


def test_the_server_accepts_the_settings(found: dict[str, Any]) -> None:
    given = settings(found)
    assert (given.store, given.auth_mode, given.port) == (
        "postgres" if "Deployment" in found else "embedded",
        "token",
        9324,
    )
    if given.data is not None:
        mounts = [Path(mount["mountPath"]) for mount in container(found)["volumeMounts"]]
        assert any(given.data.is_relative_to(mount) for mount in mounts)


def test_nodes_are_replaced_without_an_interruption() -> None:
    found = objects("penstock.yaml")
    spec = found["Deployment"]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    budget = found["PodDisruptionBudget"]["spec"]
    assert 1 <= budget["minAvailable"] < spec["replicas"]
    assert budget["selector"] == spec["selector"]


def test_the_ingress_leads_to_the_service_under_the_base_url() -> None:
    found = objects("penstock.yaml")
    [rule] = found["Ingress"]["spec"]["rules"]
    [tls] = found["Ingress"]["spec"]["tls"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "penstock", "port": {"name": "http"}}
    assert tls["hosts"] == [rule["host"]]
    assert settings(found).base_url == f"https://{rule['host']}"


def test_the_kustomization_lists_what_exists_and_names_the_image() -> None:
    found = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert all((FOLDER / name).exists() for name in found["resources"])
    assert [image["name"] for image in found["images"]] == [container(objects("penstock.yaml"))["image"]]


def test_one_node_alone_owns_its_volume() -> None:
    spec = objects("embedded.yaml")["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    [claim] = spec["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_passwords_come_from_secrets() -> None:
    nodes, job = objects("penstock.yaml"), objects("migrate.yaml")["Job"]
    [migrating] = job["spec"]["template"]["spec"]["containers"]
    assert not [name for name in nodes["ConfigMap"]["data"] if "URL" in name and "DATABASE" in name]
    for one in (container(nodes), migrating):
        [variable] = [found for found in one["env"] if found["name"] == "PENSTOCK_DATABASE_URL"]
        assert variable == {
            "name": "PENSTOCK_DATABASE_URL",
            "valueFrom": {"secretKeyRef": {"name": "penstock", "key": "database-url"}},
        }


def test_the_job_that_migrates_runs_like_the_nodes_and_gets_no_requests() -> None:
    nodes, job = objects("penstock.yaml"), objects("migrate.yaml")["Job"]
    pod, other = job["spec"]["template"]["spec"], workload(nodes)["spec"]["template"]["spec"]
    [one] = pod["containers"]
    image = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["images"][0]
    assert job["apiVersion"] == "batch/v1"
    assert "name" not in job["metadata"], "a job cannot be changed: each run is a new one"
    assert pod.keys() <= {*POD, "restartPolicy"}
    assert one.keys() <= {*CONTAINER, "args"}
    assert one["args"][0] in command_line().commands
    assert one["image"] == f"{image['newName']}:{image['newTag']}"
    assert pod["restartPolicy"] == "Never"
    assert pod["securityContext"] == other["securityContext"]
    assert one["securityContext"] == container(nodes)["securityContext"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert not nodes["Service"]["spec"]["selector"].items() <= labels.items()
