"""A client stands in for the in-process face: the same operations, with the same arguments, giving the same views."""

import inspect
from typing import Any, get_type_hints

import pytest

from ficha.client import AsyncClient, Client
from ficha.client.operation import iteration, operation
from ficha.operations import BoundOperations

OPERATIONS = {
    name: found
    for name in dir(Client)
    if isinstance(found := inspect.getattr_static(Client, name), operation | iteration)
}
ONLY_HERE = {"export_batch", "active_job", "download", "job_token", "read_file", "submit_and_wait", "tools", "watch"}
OWN_ARGUMENTS = {"begin_upload", "upload"}
"""A key knows its account, and a path its name."""
NOT_OVER_HTTP = {
    # Another's transaction cannot be shared over HTTP.
    **{name: {"connection"} for name in ("grant", "open_account", "reserve", "submit", "submit_batch")},
    "cancel": {"account", "connection"},  # Whose it may be, the key says.
    "submit_request": {"by_user"},  # And who calls.
    "submit_batch_request": {"by_user"},
    "quote_request": {"by_user"},
    "consume": {"account"},
    **{name: {"account"} for name in ("complete_upload", "file", "file_link", "remove_file")},
    "release": {"account"},
    "remove_work": {"account"},
    "prune": {"export"},  # A folder of this machine.
    "resume_batch": {"account"},
}


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    del found["self"]
    return found


def test_every_operation_is_there() -> None:
    inner = {
        name for name, _ in inspect.getmembers(BoundOperations, inspect.iscoroutinefunction) if not name.startswith("_")
    }
    of_workers = {
        name
        for name in inner
        if name in vars(next(kind for kind in BoundOperations.__mro__ if kind.__name__ == "LeaseOperations"))
    }
    not_over_http = {"submit_many", "position", "queue_length", "verify", "api_key", "use_api_key", "job_by_ref"}
    not_over_http |= {"part"}
    not_over_http |= {"follow_in_session", "note_verification", "recount"}
    of_hooks = {"hooks", "due_hooks", "hold_hook", "end_hook", "wait_for_hooks"}
    of_hooks |= {"make_deliveries", "due_deliveries", "hold_delivery", "end_delivery", "wait_for_deliveries"}
    of_hooks |= {"forget_old_deliveries"}
    of_hooks |= {"due_bulk_acts", "hold_bulk_act", "next_bulk_jobs", "advance_bulk_act", "wait_for_bulk_acts"}
    of_hooks |= {"declared_hooks", "forget_hook"}
    of_storage = {"link_with", "receive", "stored_file", "save_result", "keep_result", "sweep_files"}
    of_storage |= {"files_of", "open_file", "url_of", "save_file", "prune_step"}
    of_polls = {"due_polls", "hold_poll", "end_poll", "wait_for_polls", "finish_awaiting", "payload_of", "kept_word"}
    of_polls |= {"accepted_ref", "receive_callback", "note_start", "open_start"}
    assert inner - of_workers - of_hooks - of_storage - of_polls - not_over_http == set(OPERATIONS) - ONLY_HERE


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - ONLY_HERE - OWN_ARGUMENTS))
def test_an_operation_takes_what_the_inner_one_takes(name: str) -> None:
    theirs = parameters(getattr(BoundOperations, name))
    ours = parameters(OPERATIONS[name].flow)
    assert ours.keys() == theirs.keys() - NOT_OVER_HTTP.get(name, set())
    for known, parameter in ours.items():
        assert parameter.kind == theirs[known].kind
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            assert parameter.annotation == theirs[known].annotation
        if known == "account":
            continue  # That of the key, if none is named.
        assert parameter.default == theirs[known].default


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_says_what_it_does(name: str) -> None:
    assert OPERATIONS[name].__doc__
    assert get_type_hints(OPERATIONS[name].flow)["return"]
    assert getattr(AsyncClient, name) is getattr(Client, name)
