"""What is shown of a database's URL: never a secret in it."""

from __future__ import annotations

import traceback
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.store.base import StoreError
from ficha.store.connect import store_for
from ficha.store.database_url import hidden, host_by_host, without_secrets
from tests.support.postgres import Server

SECRET = "hunter2canary"  # noqa: S105 (that is what is looked for)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory:", "memory:"),
        ("sqlite:///ficha.db", "sqlite:///ficha.db"),
        ("sqlite:////home/me@work/ficha.db", "sqlite:////home/me@work/ficha.db"),
        ("sqlite:///ficha.db?key=hunter2", "sqlite:///ficha.db?key=***"),
        ("postgresql://db/ficha", "postgresql://db/ficha"),
        ("postgresql://ana@db:5432/ficha?sslmode=require", "postgresql://ana@db:5432/ficha?sslmode=require"),
        ("postgresql://ana:hunter2@db/ficha", "postgresql://ana:***@db/ficha"),
        ("postgresql://ana:@db/ficha", "postgresql://ana:***@db/ficha"),
        ("postgresql://ana:hun@ter2@db/ficha", "postgresql://ana:***@db/ficha"),
        ("postgresql://ana:hun/ter2@db/ficha", "postgresql://ana:***@db/ficha"),
        ("postgresql://ana:hun?ter2@db/ficha", "postgresql://***"),
        ("postgresql://ana:12?34@db/ficha", "postgresql://***"),
        ("postgresql://ana@db/f?user=me@work", "postgresql://ana@db/f?user=me@work"),
        ("postgresql://ana:hun#ter2@db/ficha", "postgresql://ana:***@db/ficha"),
        ("postgresql://db/ficha#hunter2", "postgresql://db/ficha"),
        ("postgresql://[::1]:5432/ficha", "postgresql://[::1]:5432/ficha"),
        ("postgresql://a:1,b:2/ficha?target_session_attrs=any", "postgresql://a:1,b:2/ficha?target_session_attrs=any"),
        ("postgresql://db/f?password=hunter2&user=ana", "postgresql://db/f?password=***&user=ana"),
        ("postgresql://db/f?p%61ssword=hunter2", "postgresql://db/f?***"),
        ("postgresql://db/f?sslpassword=x&passfile=/y&options=-c%20a.b=z&hunter2", "postgresql://db/f?sslpassword=***"
         "&passfile=***&options=***&***"),
        ("postgresql://db/f?ficha_pool_size=3&ficha_listen_url=postgresql%3A%2F%2Fana%3Ahunter2%40b%2Ff",
         "postgresql://db/f?ficha_pool_size=3&ficha_listen_url=postgresql://ana:***@b/f"),
        ("https://me:hunter2@shop.example/x?token=hunter2", "https://me:***@shop.example/x?token=***"),
        ("ana:hunter2@db/ficha", "***"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert hidden(url) == shown


@given(st.text("ab:/?#@[]%&=, \n", max_size=12), st.text("ab:/?#@[]%&=, \n", max_size=12))
def test_no_shape_of_a_url_shows_what_stands_where_a_password_does(before: str, after: str) -> None:
    for url in (
        f"postgresql://ana:{before}{SECRET}{after}@db/ficha",
        f"postgresql://db/ficha?password={SECRET}{after}",
        f"postgresql://ana@db/ficha?sslmode=off&options={SECRET}{after}",
    ):
        assert SECRET not in hidden(url)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ana:12{SECRET}/x@127.0.0.1:1/ficha",
        f"postgresql://ana:1/{SECRET}@127.0.0.1:1/ficha",
        f"postgresql://ana:{SECRET}#x@127.0.0.1:1/ficha",
        f"postgresql://ana:{SECRET}\u2100@127.0.0.1:1/ficha",
        f"postgresql://ana:[{SECRET}@127.0.0.1:1/ficha",
        f"oracle://ana:{SECRET}@db/ficha",
        f"sqlite://ana:{SECRET}@x",
        f"ana:{SECRET}@db/ficha",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        store_for(url)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "parameters",
    [
        f"password={SECRET}&search_path={SECRET}&work_mem={SECRET}",
        f"sslmode=require&sslpassword={SECRET}&sslkey=/{SECRET}&sslcert=/{SECRET}",
        f"passfile=/{SECRET}&ssl_min_protocol_version={SECRET}",
        f"options=-c%20work_mem%3D{SECRET}",
        f"password={quote('&' + SECRET)}&statement_timeout={quote('&' + SECRET)}",
    ],
)
async def test_what_the_driver_and_the_database_say_of_a_url_shows_no_secret(
    postgres_server: Server, parameters: str
) -> None:
    address = postgres_server.url("postgres")
    store = store_for(f"{address}{'&' if '?' in address else '?'}{parameters}")
    try:
        with pytest.raises(StoreError) as refused:
            await store.open()
    finally:
        await store.close()
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_secrets_are_found_in_the_words_of_others_in_each_of_their_forms() -> None:
    url = "postgresql://ana:a%2Fb%20c@db/f?sslpassword=x%26y+z"
    assert without_secrets("a%2Fb%20c, a/b c, x%26y+z, x&y z, x&y+z", url) == "***, ***, ***, ***, ***"


@pytest.mark.parametrize(
    ("url", "each"),
    [
        ("postgresql://u:p@one/shop", ["postgresql://u:p@one/shop"]),
        (
            "postgresql://u:p@one:1,[::1]:2/shop?a=b",
            ["postgresql://u:p@one:1/shop?a=b", "postgresql://u:p@[::1]:2/shop?a=b"],
        ),
        (
            "postgresql://u@/shop?host=/a,/b&x=y",
            ["postgresql://u@/shop?host=/a&x=y", "postgresql://u@/shop?host=/b&x=y"],
        ),
        (
            "postgresql://u@/shop?host=one,two&port=1,2",
            ["postgresql://u@/shop?host=one&port=1", "postgresql://u@/shop?host=two&port=2"],
        ),
        (
            "postgresql://u@/shop?host=one,two&port=1",
            ["postgresql://u@/shop?host=one&port=1", "postgresql://u@/shop?host=two&port=1"],
        ),
        ("postgresql://u@/shop?host=/a", ["postgresql://u@/shop?host=/a"]),
        ("postgresql:///shop", ["postgresql:///shop"]),
    ],
)
def test_a_url_of_several_hosts_is_one_for_each(url: str, each: list[str]) -> None:
    assert host_by_host(url) == each
