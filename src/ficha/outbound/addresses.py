"""Which URLs and addresses may be called for a user. No I/O: `dialing.py` resolves names, where it opens connections.

The rules judge addresses, never the text of a name: `127.1`, `0x7f000001` and a name of your own that leads to
127.0.0.1 all mean the same address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from .errors import ForbiddenAddress

URL_CHARS: Final = 2_048
"""The longest URL."""

_FORBIDDEN_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by carriers; some clouds have their metadata here
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # public in form, but inside Azure it is the host of the virtual machine
            "169.254.0.0/16",  # link-local; most clouds have their metadata here
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; one cloud has its metadata here
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
"""All that is assigned as public. Loopback, link-local, unique local, multicast and mapped addresses lie outside."""
_FORBIDDEN_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: leads to the IPv4 address inside
            "3fff::/20",  # documentation
        ),
    )
)
_EMBEDDING: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Addresses that lead to the IPv4 address in their last 32 bits (mapped, NAT64), which is judged instead."""
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")

Address = IPv4Address | IPv6Address


def judged(text: str) -> Address:
    """The address that packets to this one reach."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _FORBIDDEN_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _FORBIDDEN_V6)


class AddressRules:
    """What may be called: HTTPS to public addresses, and whatever the operator allows.

    allow: host names and networks, such as `hooks.internal` or `10.20.0.0/16`, that may be called although they are not
        public, and without TLS.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        networks: list[IPv4Network | IPv6Network] = []
        names: set[str] = set()
        for entry in allow:
            text = str(entry).strip().lower()
            try:
                networks.append(ip_network(text, strict=False))
            except ValueError:
                if not _HOST.fullmatch(text) or text.replace(".", "").isdecimal():
                    raise ValueError(
                        f"allow_addresses: {entry!r} is neither a host name nor a network such as 10.0.0.0/8"
                    ) from None
                names.add(text.rstrip("."))
        self._networks = tuple(networks)
        self._names = frozenset(names)

    def check_host(self, host: str) -> None:
        """Raises if a host cannot be called, whatever its name resolves to."""
        if ":" not in host and not _HOST.fullmatch(host.lower()):
            raise ForbiddenAddress("the URL's host is no host name and no address")
        if "%" in host:
            raise ForbiddenAddress("the URL's address names a network interface")

    def check_addresses(self, host: str, addresses: Sequence[str], *, is_plain: bool) -> None:
        """Raises unless every address that the host resolved to may be called.

        is_plain: whether the call is made without TLS.
        """
        if host.lower().rstrip(".") in self._names:
            return
        for text in addresses:
            address = judged(text)
            if any(address in network for network in self._networks if network.version == address.version):
                continue
            if not is_public(address):
                raise ForbiddenAddress(no_public_address(host))
            if is_plain:
                raise ForbiddenAddress(f"{host} can be called by https:// only")


def no_public_address(host: str) -> str:
    """The same message, without an address, for a name of the internal network and for one that does not exist: a user
    must not learn from it which internal names there are, and their addresses."""
    return f"{host} leads to no public address"


def url_problem(url: str) -> str | None:
    """Why the text cannot be the URL of a call for a user, if it cannot. URL parsers disagree about such texts."""
    if not url or len(url) > URL_CHARS:
        return f"the URL must have 1 to {URL_CHARS} characters"
    if not all("!" <= char <= "~" for char in url) or "\\" in url:
        return "the URL has characters that must be written otherwise: %XX in a path, xn--… in a host name"
    if not url.lower().startswith(("https://", "http://")):
        return "the URL must begin with https://"
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        return "the URL must not have a user name or password"
    return None
