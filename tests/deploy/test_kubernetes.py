"""The manifests for Kubernetes, against its own schemas, and what they promise."""

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.manifests import DEPLOY, ROOT, commands, grace_s, kubernetes, of_kind, pods

OTHERS = {"Kustomization", "Component", "ScaledObject", "TriggerAuthentication", "ServiceMonitor", "PodMonitor"}
"""Not Kubernetes' own: it has no schemas of them."""
VERSIONS = ("1.30", kubernetes_validate.latest_version())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_follows_the_schema_of_its_kind(version: str) -> None:
    checked = set()
    for path, found in kubernetes():
        if found["kind"] not in OTHERS:
            # Strict: also a field that there is none of is a mistake.
            kubernetes_validate.validate(found, version, strict=True)
            checked.add((path.name, found["kind"]))
    assert len(checked) >= 9


def test_the_check_would_find_a_field_that_there_is_none_of() -> None:
    server = of_kind("Deployment")["ficha-server"]
    server["spec"]["template"]["spec"]["terminationGraceSeconds"] = 5
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(server, VERSIONS[0], strict=True)


def test_a_kustomization_lists_exactly_the_files_beside_it() -> None:
    for path, found in kubernetes():
        if path.name == "kustomization.yaml":
            beside = {other.name for other in path.parent.glob("*.yaml")} - {path.name}
            assert set(found["resources"]) == beside, path


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_has_no_more_rights_than_it_needs(name: str) -> None:
    pod = pods()[name]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]  # noqa: S108 (in a container)


def test_the_server_is_probed_and_stops_well() -> None:
    pod = pods()["ficha-server"]
    [server] = pod["containers"]
    probed = {kind: server[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert probed == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    leaves_s = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    takes_s = leaves_s + grace_s(commands()["kubernetes: ficha-server"]) + 5
    assert takes_s < pod["terminationGracePeriodSeconds"]
    rolling = of_kind("Deployment")["ficha-server"]["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxUnavailable": 0, "maxSurge": 1}


def test_a_worker_may_end_its_jobs_and_has_the_memory_that_it_is_promised() -> None:
    pod = pods()["ficha-worker"]
    assert grace_s(commands()["kubernetes: ficha-worker"]) + 5 < pod["terminationGracePeriodSeconds"]
    assert pod["containers"][0]["resources"]["limits"]["memory"] == "2Gi"


def test_what_belongs_together_is_found_by_its_labels() -> None:
    labels = {name: found["spec"]["template"]["metadata"]["labels"] for name, found in of_kind("Deployment").items()}
    for name in ("ficha-server", "ficha-worker"):
        own = {"app.kubernetes.io/name": name}
        assert own.items() <= labels[name].items()
        for found in (of_kind("Deployment")[name], of_kind("PodDisruptionBudget")[name]):
            assert found["spec"]["selector"] == {"matchLabels": own}
    server = {"app.kubernetes.io/name": "ficha-server"}
    assert of_kind("Service")["ficha-server"]["spec"]["selector"] == server
    assert of_kind("Service")["ficha-server"]["metadata"]["labels"] == server
    assert of_kind("ServiceMonitor")["ficha-server"]["spec"]["selector"] == {"matchLabels": server}
    everything = of_kind("NetworkPolicy")["ficha"]["spec"]["podSelector"]["matchLabels"]
    for found in (*labels.values(), of_kind("Job")["ficha-migrate"]["spec"]["template"]["metadata"]["labels"]):
        assert everything.items() <= found.items()


def test_nobody_reaches_a_pod_but_the_server_at_its_port_and_no_pod_reaches_credentials() -> None:
    policies = of_kind("NetworkPolicy")
    assert policies["ficha"]["spec"]["ingress"] == []
    [way] = policies["ficha-server"]["spec"]["ingress"]
    [container] = pods()["ficha-server"]["containers"]
    assert [port["port"] for port in way["ports"]] == [port["containerPort"] for port in container["ports"]]
    # Prometheus alone reaches a worker, and only what it reads.
    [way] = policies["ficha-worker-metrics"]["spec"]["ingress"]
    [container] = pods()["ficha-worker"]["containers"]
    assert [port["port"] for port in way["ports"]] == [port["containerPort"] for port in container["ports"]] == [9100]
    assert way["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    out = {port["port"] for rule in policies["ficha"]["spec"]["egress"] for port in rule["ports"]}
    assert out == {53, 443, 4318, 5432, 6432, 6543, 9000, 25060, 25061}
    guide = (ROOT / "docs" / "deployment.md").read_text().partition("**Outgoing traffic**")[2].partition("\n- ")[0]
    assert {int(port) for port in re.findall(r"\b\d{3,5}\b", guide)} | {53} == out
    anywhere: list[dict[str, Any]] = [
        block["ipBlock"]
        for rule in policies["ficha"]["spec"]["egress"]
        for block in rule.get("to", ())
        if "ipBlock" in block
    ]
    assert {"169.254.0.0/16", "fe80::/10"} <= {net for block in anywhere for net in block["except"]}


def test_keda_asks_the_servers_own_route_for_workers_of_the_right_size() -> None:
    scaled = of_kind("ScaledObject")["ficha-worker"]["spec"]
    assert scaled.keys() <= {
        *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "minReplicaCount", "maxReplicaCount", "fallback"),
        *("advanced", "triggers"),
    }
    assert scaled["scaleTargetRef"]["name"] in of_kind("Deployment")
    [trigger] = scaled["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("metrics-api", "AverageValue")
    asked = trigger["metadata"]
    assert asked.keys() == {"url", "valueLocation", "targetValue", "authMode"}
    assert (asked["valueLocation"], asked["targetValue"], asked["authMode"]) == ("wanted_workers", "1", "bearer")
    words = commands()["kubernetes: ficha-worker"]
    assert asked["url"].endswith(f"/queue-depth?concurrency={words[words.index('--concurrency') + 1]}")
    login = of_kind("TriggerAuthentication")[trigger["authenticationRef"]["name"]]
    assert [given["parameter"] for given in login["spec"]["secretTargetRef"]] == ["token"]
    # KEDA owns the number of workers then.
    component = yaml.safe_load((DEPLOY / "kubernetes" / "keda" / "kustomization.yaml").read_text())
    assert yaml.safe_load(component["patches"][0]["patch"]) == [{"op": "remove", "path": "/spec/replicas"}]
