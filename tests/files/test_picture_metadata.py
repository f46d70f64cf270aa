"""Pictures that are saved lose what tells place and device; pixels, profile, orientation and provenance stay."""

from __future__ import annotations

import io
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

from ficha.files.picture_metadata import pieces_of, without_place_and_device

SECRETS = (b"Secretphone", b"SN-12345", b"Lisbon")
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description rdf:about="" xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="38,42N"'
    b' xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" photoshop:City="Lisbon"'
    b' xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" Iptc4xmpExt:DigitalSourceType="'
    b'http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"/></rdf:RDF></x:xmpmeta>'
)
AI_MADE = b"digitalsourcetype/trainedAlgorithmicMedia"


def exif(orientation: int | None = 6, *, tells: bool = True) -> bytes:
    made = Image.Exif()
    if orientation is not None:
        made[0x0112] = orientation
    made[0x010E] = "a cat"
    if tells:
        made[0x0110] = "Secretphone 7"
        made.get_ifd(0x8769)[0xA431] = "SN-12345"
        made.get_ifd(0x8825).update({1: "N", 2: (38.0, 42.0, 0.0), 3: "W", 4: (9.0, 8.0, 0.0)})
    return made.tobytes()


def picture(kind: str, *, xmp: bytes = XMP, **options: Any) -> bytes:
    image = Image.effect_noise((64, 40), 80).convert("RGB")
    made = io.BytesIO()
    if kind == "PNG":
        texts = PngInfo()
        texts.add_text("parameters", "a cat, 20 steps")
        texts.add_text("Source", "Secretphone")
        texts.add_itxt("XML:com.adobe.xmp", xmp.decode())
        image.save(made, kind, exif=exif(**options), icc_profile=PROFILE, pnginfo=texts)
    elif kind == "WEBP":
        image.save(made, kind, exif=exif(**options), icc_profile=PROFILE, xmp=xmp)
    else:
        image.save(made, kind, exif=exif(**options), icc_profile=PROFILE, xmp=xmp, progressive=kind == "JPEG")
    return made.getvalue()


def stripped(data: bytes) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else data[piece[0] : piece[1]] for piece in pieces_of(data))


KINDS = ["JPEG", "PNG", "WEBP"]


@pytest.mark.parametrize("kind", KINDS)
def test_place_and_device_leave_and_all_else_stays(kind: str) -> None:
    data = picture(kind)
    assert any(word in data for word in SECRETS)
    left = stripped(data)
    for word in (*SECRETS, b"GPS"):
        assert word not in left, word
    assert AI_MADE in left
    before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(left))
    assert after.tobytes() == before.tobytes()
    assert after.info["icc_profile"] == PROFILE
    assert dict(after.getexif()) == {0x0112: 6}
    assert (b"20 steps" in left) == (kind == "PNG")
    assert stripped(left) == left


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_without_fields_to_keep_has_none(kind: str) -> None:
    left = stripped(picture(kind, orientation=1, xmp=b"<x:xmpmeta/>"))
    found = Image.open(io.BytesIO(left))
    found.load()
    assert not found.getexif()
    assert b"Exif" not in left
    assert b"xmpmeta" not in left


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_without_such_fields_is_not_changed(kind: str) -> None:
    made = io.BytesIO()
    Image.effect_noise((64, 40), 80).save(made, kind)
    assert stripped(made.getvalue()) == made.getvalue()


@pytest.mark.parametrize("tells", [False, True])
def test_a_signed_picture_is_changed_only_if_it_tells_place_or_device(tells: bool) -> None:
    data = picture("JPEG", xmp=XMP if tells else b"<x:xmpmeta/>", tells=tells)
    manifest = b"JP\x00\x01\x00\x00\x00\x01" + b"jumbc2pa manifest"
    signed = data[:2] + b"\xff\xeb" + (len(manifest) + 2).to_bytes(2) + manifest + data[2:]
    left = stripped(signed)
    assert manifest in left
    assert (left == signed) is not tells
    assert not any(word in left for word in SECRETS)


def test_further_pictures_of_a_file_lose_their_fields_and_what_a_phone_appends_leaves() -> None:
    first, second = picture("JPEG"), picture("JPEG", orientation=None)
    assert stripped(first + second + b"SEFT Secretphone") == stripped(first) + stripped(second)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_picture_is_no_error_and_gets_no_longer(kind: str) -> None:
    data, draw = picture(kind), random.Random(36)
    for cut in [*range(0, 400), *(draw.randrange(len(data)) for _ in range(200))]:
        assert len(stripped(data[:cut])) <= cut
    for _ in range(500):
        broken = bytearray(data)
        for _ in range(4):
            at = draw.randrange(len(broken) if draw.random() < 0.5 else 600)
            broken[at] = draw.choice((0, 1, 0xFF, 0xD8, 0xD9, 0xE1))
        assert len(stripped(bytes(broken))) <= len(broken) + 8


@pytest.mark.parametrize("kind", [*KINDS, None])
async def test_a_stream_in_pieces_of_any_size_comes_to_the_same(kind: str | None) -> None:
    data = b"no picture at all" * 10 if kind is None else picture(kind)

    async def chunks(size: int) -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    for size in (1, 7, 10_000):
        assert b"".join([chunk async for chunk in without_place_and_device(chunks(size))]) == (
            data if kind is None else stripped(data)
        )
