"""The compose file, against the schema of the Compose Specification, and what it promises."""

import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from ficha.store.connect import store_for
from tests.deploy.manifests import COMPOSE, DEPLOY, commands, grace_s

SERVICES = COMPOSE["services"]
OURS = ("migrate", "server", "worker")


def test_the_file_follows_the_compose_specification() -> None:
    schema = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text())
    problems = [*jsonschema.Draft7Validator(schema).iter_errors(COMPOSE)]
    assert [problem.message for problem in problems] == []


def test_there_are_a_database_a_pooler_migrations_a_server_and_five_workers() -> None:
    assert set(SERVICES) == {"postgres", "pgbouncer", *OURS}
    assert SERVICES["worker"]["deploy"]["replicas"] == 5
    assert SERVICES["worker"]["mem_limit"] == "2g"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_service_can_write_to_its_image_or_gain_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["tmpfs"]
    if name != "postgres":  # It changes its user when it starts.
        assert service["cap_drop"] == ["ALL"]
    assert not service.get("privileged")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_each_starts_after_what_it_needs() -> None:
    needed = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    for name in ("server", "worker"):
        assert needed[name]["migrate"] == {"condition": "service_completed_successfully"}
        assert needed[name]["pgbouncer"] == {"condition": "service_healthy"}
    for name in ("migrate", "pgbouncer"):
        assert needed[name] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"
    assert "healthcheck" in SERVICES["postgres"]
    # The others' checks are in their images; what listens nowhere has none.
    assert {name for name, service in SERVICES.items() if service.get("healthcheck") == {"disable": True}} == {
        "migrate",
        "worker",
    }


@pytest.mark.parametrize("name", ["server", "worker"])
def test_a_service_is_given_longer_to_stop_than_it_takes(name: str) -> None:
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) >= grace_s(commands()[f"compose: {name}"]) + 5


def test_secrets_come_from_a_file_that_git_ignores() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    needed = {*re.findall(r"\$\{(\w+):\?", text)}
    example = (DEPLOY / "env.example").read_text()
    assert needed == set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == {"POSTGRES_PASSWORD", "FICHA_SECRET"}
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert ".env" in ignored
    assert "/deploy/app.env" in ignored


@pytest.mark.parametrize("name", OURS)
def test_the_urls_are_ones_that_ficha_takes(name: str) -> None:
    found = {
        key: re.sub(r"\$\{\w+:\?[^}]*\}", "a-pass_word", value)
        for key, value in SERVICES[name]["environment"].items()
        if key.endswith("_URL")
    }
    store_for(found["FICHA_DATABASE_URL"])
    store_for(found["FICHA_LISTEN_URL"])
    assert "@postgres:5432/" in found["FICHA_LISTEN_URL"], "hints come from the database itself"
    if name == "migrate":
        assert "@postgres:5432/" in found["FICHA_DATABASE_URL"]
    else:
        assert "@pgbouncer:6432/" in found["FICHA_DATABASE_URL"]
        assert "ficha_prepared=off" in found["FICHA_DATABASE_URL"]


def test_the_folders_that_it_names_are_there() -> None:
    for service in SERVICES.values():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", ()):
            if volume.startswith("${"):
                assert Path(DEPLOY, volume.partition(":-")[2].partition("}")[0], "app.py").is_file()
