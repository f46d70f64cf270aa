"""Puts an overlay together as kustomize would, as far as deploy/ uses it: resources, components, images, and patches
that remove a field. Anything else is refused, so that nothing is passed over."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

KNOWN = {"apiVersion", "kind", "namespace", "resources", "components", "images", "labels", "patches"}
Object = dict[str, Any]


def built(folder: Path) -> list[Object]:
    """The objects of a kustomization."""
    return _with(folder, [])


def _with(folder: Path, objects: list[Object]) -> list[Object]:
    said = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert said.keys() <= KNOWN, f"{folder}: {said.keys() - KNOWN}"
    found = list(objects)
    for name in said.get("resources", ()):
        path = (folder / name).resolve(strict=True)
        found += built(path) if path.is_dir() else [*yaml.safe_load_all(path.read_text())]
    for name in said.get("components", ()):
        path = (folder / name).resolve(strict=True)
        assert yaml.safe_load((path / "kustomization.yaml").read_text())["kind"] == "Component", path
        found = _with(path, found)
    return [_changed(one, said) for one in found]


def _changed(one: Object, said: dict[str, Any]) -> Object:
    one = copy.deepcopy(one)
    for image in said.get("images", ()):
        for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
    for patch in said.get("patches", ()):
        target = patch["target"]
        if (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"]):
            for step in yaml.safe_load(patch["patch"]):
                assert step["op"] == "remove", step
                *way, last = step["path"].strip("/").split("/")
                place = one
                for name in way:
                    place = place[name]
                del place[last]
    return one
