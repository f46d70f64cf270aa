"""`ficha apikey` and `ficha audit`: keys are shown once and revoked, and all that the command changes is on record."""

import getpass
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ficha import Ficha, api_key_text
from ficha.cli.backend import operator
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")

Shop = Callable[[], Ficha]


def test_a_key_is_printed_once_listed_without_its_secret_and_revoked(ficha: Run, url: str) -> None:
    ficha("migrate", "up")
    assert ficha("apikey", "list").err == "no API keys\n"
    ficha("account", "create", "ana")
    made = ficha("apikey", "create", "web", "--account", "ana", "--ttl-hours", "0.5")
    secret = made.out.strip()
    assert api_key_text.scope_of(secret) == "user"
    [row] = ficha("apikey", "list").rows
    key_id, expires_at = row[0], datetime.fromisoformat(row[5]).astimezone(UTC)
    assert row[1:5] == ["web", f"{api_key_text.hint_of(secret)}…", "ana", "live"]
    assert (
        made.err
        == f"key {key_id} is valid, until {expires_at:%Y-%m-%d %H:%M} UTC; save it now, it cannot be shown again\n"
    )
    service = ficha("apikey", "create", "bot", "--scope", "service", "--json").data
    assert api_key_text.scope_of(service["secret"]) == "service"
    assert (service["key"]["account"], service["key"]["expires_at"], service["key"]["state"]) == (None, None, "live")
    viewer = ficha("apikey", "create", "wall", "--scope", "viewer", "--json").data
    assert api_key_text.scope_of(viewer["secret"]) == viewer["key"]["scope"] == "viewer"
    assert ficha("apikey", "create", "root", "--scope", "admin").err.endswith("cannot be shown again\n")
    assert ficha("apikey", "revoke", key_id).err == f"key {key_id} (web, {api_key_text.hint_of(secret)}…) is revoked\n"
    revoked = ficha("apikey", "revoke", key_id, "--json").data
    assert (revoked["state"], revoked["id"]) == ("revoked", key_id)
    listed = ficha("apikey", "list", "--json")
    assert [key["state"] for key in listed.items] == ["live", "live", "live", "revoked"]
    first = ficha("apikey", "list", "--limit", "2", "--json").items
    assert ficha("apikey", "list", "--after", first[-1]["id"], "--json").items == listed.items[2:]
    assert secret not in listed.out
    assert ficha("verify", "--json").data["ok"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create", "web"), 1, "a user's key needs the account that it acts for"),
        (("create", "web", "--account", "nobody"), 1, "no account 'nobody'; open it first"),
        (("create", "web", "--scope", "admin", "--account", "ana"), 1, "Leave the account out"),
        (("create", "web", "--scope", "root"), 2, "--scope must be one of user, service, admin, viewer, not 'root'"),
        (("create", "web", "--scope", "admin", "--ttl-hours", "-1"), 1, "from 0 to a hundred years"),
        (("create",), 2, "Missing argument 'NAME'"),
        (("revoke", "web"), 1, "there is no API key 'web': an id is a UUID"),
        (("list", "--after", "web"), 1, "an id is a UUID"),
    ],
)
def test_what_cannot_be_a_key_is_refused_with_words(
    ficha: Run, url: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ficha("migrate", "up")
    done = ficha("apikey", *arguments, expect=code)
    assert (words in done.err, done.out) == (True, "")
    assert ficha("apikey", "list", "--json").items == []


def test_a_third_key_of_a_name_waits_for_one_to_be_revoked(ficha: Run, url: str) -> None:
    ficha("migrate", "up")
    for _ in range(2):
        ficha("apikey", "create", "ci", "--scope", "admin")
    refused = ficha("apikey", "create", "ci", "--scope", "admin", "--json", expect=1).error
    assert (refused["code"], len(refused["details"]["live"])) == ("INVALID_STATE", 2)
    ficha("apikey", "revoke", refused["details"]["live"][0])
    ficha("apikey", "create", "ci", "--scope", "admin")


def test_every_changing_command_is_on_record_and_looking_is_not(ficha: Run, url: str, shop: Shop) -> None:
    ficha("migrate", "up")
    assert ficha("audit").err == "the audit log is empty\n"
    ficha("account", "create", "ana", "--credits", "50")
    ficha("account", "grant", "ana", "5", "--reason", "promo", "--key", "pay-1")
    ficha("account", "adjust", "ana", "-5", "--reason", "mistake")
    ficha("account", "plan", "ana", "pro")
    job = ficha("submit", "draw", "--account", "ana", "--field", "prompt=x").out.strip()
    ficha("cancel", job, "--reason", "enough")
    ficha("cancel", job)
    ficha("recover", job)
    ficha("pools", "resize", "default", "3", expect=1)
    key = ficha("apikey", "create", "ci", "--scope", "admin", "--json").data["key"]["id"]
    ficha("apikey", "revoke", key)
    for look in (("jobs",), ("job", job), ("account", "show", "ana"), ("ledger", "ana"), ("audit",)):
        ficha(*look)
    ficha("verify")
    lines = ficha("audit", "--json").items
    assert [(line["act"], line["target"]) for line in reversed(lines)] == [
        ("open_account", "account ana"),
        ("grant", "account ana"),
        ("adjust", "account ana"),
        ("change_plan", "account ana"),
        ("submit", "account ana"),
        ("cancel", f"job {job}"),
        ("cancel", f"job {job}"),
        ("recover", f"job {job}"),
        ("create_api_key", f"API key {key}"),
        ("revoke_api_key", f"API key {key}"),
        ("verify", "database"),
    ]
    assert {line["actor"] for line in lines} == {f"cli {getpass.getuser()}@{socket.gethostname()}"}
    assert lines[0]["details"] == {"violations": 0}
    assert lines[-2]["details"] == {"amount": 5, "reason": "promo", "key": "pay-1", "balance": 55}
    assert [line["details"].get("changed", True) for line in lines if line["act"] == "cancel"] == [False, True]
    rows = ficha("audit", "--limit", "1").rows
    assert rows[0][2:5] == [operator(), "verify", "database"]
    page = ficha("audit", "--limit", "3", "--after", str(lines[2]["number"]), "--json").items
    assert page == lines[3:6]
    written_at = [datetime.fromisoformat(line["at"]) for line in lines]
    assert written_at == sorted(written_at, reverse=True)
    assert written_at[0] - written_at[-1] < timedelta(minutes=2)


def test_whoever_has_no_name_is_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr(socket, "gethostname", lambda: "a\nhost" + "x" * 400)
    assert operator().startswith("cli somebody@a\\nhost")
    assert len(operator()) == 255
    assert operator().isprintable()
