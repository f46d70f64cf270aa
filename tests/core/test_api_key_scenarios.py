"""API keys: whom they speak for, how many live, and how they end."""

import pytest

from tests.core.scenarios import play


@pytest.mark.req("D10")
def test_a_users_key_speaks_for_an_account_that_exists_and_the_others_for_none() -> None:
    play("""
        plan free
        open ana free
        api-key k1 web scope=user account=ana        -> made scope=user account=ana until=none
        api-key k2 web scope=user                    -> INVALID_ARGUMENT says="needs the account"
        api-key k2 web scope=user account=bob        -> NOT_FOUND says="no account 'bob'"
        api-key k2 bot scope=service                 -> made account=none
        api-key k3 boss scope=admin                  -> made account=none
        api-key k4 bot scope=service account=ana     -> INVALID_ARGUMENT says="Leave the account out"
        api-key k3 other scope=admin                 -> INVALID_STATE says="k3 exists already"
    """)


def test_two_keys_of_a_name_live_and_a_third_waits_for_one_to_be_revoked() -> None:
    play("""
        api-key k1 ci                                -> made
        api-key k2 ci                                -> made
        api-key k3 ci                                -> INVALID_STATE live="['k1', 'k2']" says="Revoke one"
        api-key k3 other                             -> made
        revoke k1                                    -> revoked changed=yes
        api-key k4 ci                                -> made
        api-key k5 ci                                -> INVALID_STATE live="['k2', 'k4']"
        together
            revoke k2                                -> revoked
            api-key k5 ci                            -> made
            api-key k6 ci                            -> INVALID_STATE live="['k4', 'k5']"
    """)


def test_an_expired_key_does_not_count_to_the_microsecond() -> None:
    play("""
        api-key k1 ci ttl=1h                         -> made until=+1h
        api-key k2 ci                                -> made until=none
        +1h
        -1us
        api-key k3 ci                                -> INVALID_STATE
        +1us
        api-key k3 ci                                -> made
    """)


def test_revoking_again_changes_nothing_and_an_expired_key_can_be_revoked() -> None:
    world = play("""
        api-key k1 ci ttl=1s
        +1h
        revoke k1                                    -> revoked changed=yes
        +1h
        revoke k1                                    -> revoked changed=no
        revoke k2                                    -> NOT_FOUND says="no API key k2"
    """)
    assert world.state.api_keys["k1"].revoked_at == world.now - 3_600_000_000


def test_the_last_use_of_a_key_stands() -> None:
    play("""
        api-key k1 ci
        used k1                                      -> never
        use k1                                       -> used
        +10s
        together
            use k1
            revoke k1
        used k1                                      -> at=+0s
    """)
