"""Addresses and URLs that users give: none of them leads to a place that is not public."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import pytest

from ficha.outbound import AddressRules, ForbiddenAddress, Outbound, OutboundError
from ficha.outbound.addresses import is_public, judged
from tests.outbound.dialled import dialled
from tests.support.receiver import Receiver

PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:2800:220:1:248:1893:25c8:1946",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
)
PRIVATE = (
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
)
HOSTILE = (
    # Loopback and "this host", in the spellings that systems resolve.
    "https://127.0.0.1/",
    "https://127.0.0.1:8443/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "http://0/",
    "https://0.0.0.0/",
    "https://0x7f.0.0.1/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://2130706433/",
    "https://127.0.0.1./",
    "https://localhost/",
    "https://localhost./",
    "https://LOCALHOST/",
    "https://[::1]/",
    "https://[::]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b:1::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    # Private networks and the metadata of clouds.
    "https://10.0.0.1/",
    "https://10.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://192.168.257/",
    "https://100.64.0.1/",
    "https://100.100.100.200/latest/meta-data/",
    "https://168.63.129.16/",
    "https://169.254.169.254/latest/meta-data/",
    "http://169.254.169.254/",
    "https://0xa9fea9fe/",
    "https://2852039166/",
    "https://192.0.0.192/opc/v2/",
    "https://[fd00:ec2::254]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    # Names that lead there.
    "https://inside.example/",
    "https://INSIDE.example./",
    "https://mixed.example/",
    "https://six.example/",
    "https://nowhere.example/",
    "http://outside.example/",
    # User names, and hosts that parsers read differently.
    "https://user@127.0.0.1/",
    "https://user:word@outside.example/",
    "https://outside.example@127.0.0.1/",
    "https://127.0.0.1@outside.example/",
    "https://outside.example:443@127.0.0.1/",
    "https://@127.0.0.1/",
    "https://outside.example\\@127.0.0.1/",
    "https:\\\\127.0.0.1\\",
    "https:/127.0.0.1/",
    "https:127.0.0.1",
    "https:///127.0.0.1/",
    "https:////127.0.0.1/",
    "https://127.0.0.1#@outside.example/",
    "https://127.0.0.1?@outside.example/",
    "https://outside.example%00.127.0.0.1/",
    "https://127.0.0.1%2f.outside.example/",
    "https://%31%32%37.0.0.1/",
    "https://127。0。0。1/",
    "https://127\uff0e0\uff0e0\uff0e1/",
    "https://127｡0｡0｡1/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://①②⑦.0.0.1/",
    "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "https://outside.example\u2044@127.0.0.1/",
    "https://outside\u00ad.example/",
    "https://out side.example/",
    "https://outside.example\r\nHost: inside.example/",
    "https://outside.example\t/",
    "https://outside.example:0/",
    "https://outside.example:99999/",
    "https://outside.example:-1/",
    "https://outside.example:port/",
    "https://[127.0.0.1]/",
    "https://[::1/",
    "https://::1/",
    "https://.outside.example/",
    "https://outside..example/",
    "https://-/",
    "https://" + "a" * 3_000 + ".example/",
    # Other schemes, and no URL at all.
    "ftp://outside.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "dict://127.0.0.1:11211/",
    "unix:///var/run/docker.sock",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "//127.0.0.1/",
    "outside.example",
    "https://",
    "https://?",
    "",
    " ",
)
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
NAMES: dict[str, list[str]] = {
    "inside.example": ["127.0.0.1"],
    "mixed.example": ["93.184.216.34", "10.0.0.7"],
    "six.example": ["2606:2800:220:1::1", "::ffff:10.0.0.7"],
    "outside.example": ["93.184.216.34"],
    "localhost": ["127.0.0.1"],
}


async def resolve(host: str, port: int) -> Sequence[str]:
    """As a system does: old spellings of addresses are addresses, and names have what the table says."""
    try:
        return [socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))]
    except OSError:
        found = NAMES.get(host.lower().rstrip("."))
        if found is None:
            raise OSError("no such name") from None
        return found


def test_the_edges_of_every_network_that_is_not_public() -> None:
    assert [text for text in PUBLIC if not is_public(judged(text))] == []
    assert [text for text in PRIVATE if is_public(judged(text))] == []


@pytest.mark.parametrize("url", HOSTILE)
async def test_a_hostile_url_opens_no_socket(url: str) -> None:
    outbound = Outbound(resolve=resolve, tls=TLS)
    for call in (outbound.check(url), outbound.request("POST", url, content=b"{}"), _streamed(outbound, url)):
        with dialled() as addresses, pytest.raises(OutboundError) as refused:
            await call
        assert addresses == []
        assert refused.value.was_sent is False
        assert "10.0.0.7" not in str(refused.value)
        assert isinstance(refused.value, ForbiddenAddress) or "nowhere" in url
    await outbound.close()


async def _streamed(outbound: Outbound, url: str) -> None:
    async with outbound.stream("GET", url, redirects=3):
        pass


async def test_a_name_that_leads_inside_and_one_that_does_not_exist_are_refused_in_the_same_words() -> None:
    outbound = Outbound(resolve=resolve, tls=TLS)
    words = []
    for name in ("inside.example", "mixed.example", "nowhere.example"):
        for call in (outbound.check(f"https://{name}/"), outbound.request("POST", f"https://{name}/")):
            with pytest.raises(OutboundError) as refused:
                await call
            words.append(refused.value.message.replace(name, "NAME"))
    await outbound.close()
    assert words == ["NAME leads to no public address"] * 6


async def test_the_systems_own_resolver_is_judged_too() -> None:
    outbound = Outbound()
    with dialled() as addresses:
        for url in ("https://localhost/", "https://127.1/", "https://0/", "https://0x7f000001/", "https://2130706433/"):
            with pytest.raises(OutboundError):
                await outbound.request("GET", url)
    await outbound.close()
    assert addresses == []


@pytest.mark.parametrize(
    ("allow", "url", "may"),
    [
        (("127.0.0.0/8",), "http://127.0.0.1:{port}/", True),
        (("127.0.0.1",), "http://127.0.0.1:{port}/", True),
        (("127.0.0.0/8",), "http://inside.example:{port}/", True),
        (("inside.example",), "http://INSIDE.example.:{port}/", True),
        (("127.0.0.0/8",), "http://[::ffff:127.0.0.1]:{port}/", True),
        (("10.0.0.0/8", "::1/128"), "http://127.0.0.1:{port}/", False),
        (("other.example",), "http://inside.example:{port}/", False),
        (("127.0.0.2/32",), "http://127.0.0.1:{port}/", False),
    ],
)
async def test_what_the_operator_allows_is_reached_and_nothing_else(
    allow: tuple[str, ...], url: str, may: bool
) -> None:
    outbound = Outbound(allow, resolve=resolve)
    async with Receiver() as receiver:
        called = url.format(port=receiver.port)
        if may:
            await outbound.check(called)
            assert (await outbound.request("POST", called, content=b"{}")).status == 200
            assert receiver.received[0].headers["host"].startswith(called.removeprefix("http://").rstrip("/").lower())
        else:
            with dialled() as addresses, pytest.raises(ForbiddenAddress):
                await outbound.request("POST", called, content=b"{}")
            assert addresses == []
            assert receiver.connections == 0
        await outbound.close()


@pytest.mark.parametrize("entry", ["", "10.0.0.0/33", "1.2.3", "http://inside.example", "*.example", "a b", 7])
def test_an_entry_of_the_allow_list_that_means_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="allow_addresses"):
        AddressRules([entry])
