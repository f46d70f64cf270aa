"""Presigned S3 URLs (AWS Signature Version 4) that also bind headers.

obstore signs a URL's method, path and time only: with such a URL a stranger may upload any number of bytes of any type.
This module signs the size and the type too, and for a download the headers of the store's answer.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

from msgspec import Struct


class Credentials(Struct, frozen=True):
    """The credentials of a bucket's owner."""

    key_id: str
    secret: str
    token: str | None = None

    @classmethod
    def from_environment(cls) -> Credentials | None:
        """The credentials in the environment; None if the machine's role signs, whose secret obstore hides."""
        key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        token = os.environ.get("AWS_SESSION_TOKEN") or os.environ.get("AWS_TOKEN")
        return cls(key_id, secret, token or None) if key_id and secret else None


def presigned(
    credentials: Credentials,
    region: str,
    method: str,
    url: str,
    now: datetime,
    expires_s: int,
    headers: Mapping[str, str],
    query: Mapping[str, str],
) -> str:
    """The URL with its signature. headers: the headers that the request must have, with names in lower case."""
    parts = urlsplit(url)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    signed = {"host": parts.netloc, **headers}
    names = ";".join(sorted(signed))
    asked = dict(query) | {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.key_id}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": names,
    }
    if credentials.token:
        asked["X-Amz-Security-Token"] = credentials.token
    text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(asked.items()))
    lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in sorted(signed))
    request = f"{method}\n{parts.path}\n{text}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret}".encode()
    for part in (stamp[:8], region, "s3", "aws4_request", to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return f"{url}?{text}&X-Amz-Signature={key.hex()}"
