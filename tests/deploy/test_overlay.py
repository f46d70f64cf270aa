"""The overlay for Kubernetes: what its two folders make, and that the guide's steps name what is there."""

import re
import shlex
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.kustomize import built
from tests.deploy.manifests import DEPLOY, ROOT
from tests.deploy.test_kubernetes import OTHERS

OVERLAY = DEPLOY / "kubernetes" / "overlay"
GUIDE = (ROOT / "docs" / "deployment.md").read_text()


def images(objects: list[dict[str, Any]]) -> set[str]:
    return {
        container["image"]
        for one in objects
        for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
    }


def test_servers_workers_and_migrations_have_the_one_image_of_the_overlay() -> None:
    assert images(built(OVERLAY / "app")) == images(built(OVERLAY / "migrate")) == {"your-registry/shop:42"}


@pytest.mark.parametrize("folder", ["app", "migrate"])
def test_what_the_overlay_makes_follows_the_schemas(folder: str) -> None:
    objects = built(OVERLAY / folder)
    kinds = {one["kind"] for one in objects}
    assert kinds >= ({"Deployment", "NetworkPolicy", "ScaledObject", "PodMonitor"} if folder == "app" else {"Job"})
    for one in objects:
        if one["kind"] not in OTHERS:
            kubernetes_validate.validate(one, "1.30", strict=True)


def test_keda_alone_says_how_many_workers_there_are() -> None:
    deployments = {one["metadata"]["name"]: one for one in built(OVERLAY / "app") if one["kind"] == "Deployment"}
    assert "replicas" not in deployments["ficha-worker"]["spec"]
    assert "replicas" in deployments["ficha-server"]["spec"]


def test_the_steps_of_the_guide_apply_the_overlay_and_remove_the_job_first() -> None:
    lines = [shlex.split(line, comments=True) for line in GUIDE.splitlines() if line.startswith("kubectl ")]
    verbs = [next(word for word in line if word in ("create", "delete", "apply", "wait")) for line in lines]
    assert verbs[:6] == ["create", "create", "delete", "apply", "wait", "apply"]
    applied = [Path(line[-1]) for line, verb in zip(lines, verbs, strict=True) if verb == "apply"]
    assert [str(path) for path in applied] == ["overlay/migrate", "overlay/app"]
    [job] = built(OVERLAY / "migrate")
    named = {word.removeprefix("job/") for line in lines for word in line if re.search("^(job/)?ficha-migrate$", word)}
    assert named == {job["metadata"]["name"]}
    secrets = {line[line.index("generic") + 1] for line in lines if "generic" in line}
    used = set(re.findall(r"(?:secretRef|secretKeyRef):?\W*'?name'?\W*(\w[\w-]*)", str(built(OVERLAY / "app"))))
    assert used <= secrets
