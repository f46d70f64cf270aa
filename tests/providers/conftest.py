"""The provider simulator, one process for all tests of this folder, and a receiver of its call-backs."""

import base64
import io
from collections.abc import Iterator

import pytest
from PIL import Image

from tests.support.provider_simulator import Receiver, Simulated, receiver, simulated


@pytest.fixture(scope="session")
def _simulator() -> Iterator[Simulated]:
    with simulated() as simulator:
        yield simulator


@pytest.fixture
def simulator(_simulator: Simulated) -> Iterator[Simulated]:
    """With nothing planned, and no tasks."""
    yield _simulator
    _simulator.reset()


@pytest.fixture
def callbacks() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


def data_uri(picture: Image.Image, format: str = "PNG", **options: object) -> str:
    out = io.BytesIO()
    picture.save(out, format, **options)
    return f"data:image/{format.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


@pytest.fixture(scope="session")
def picture() -> str:
    """A small picture, as a data URI: red on the left, blue on the right."""
    image = Image.new("RGB", (30, 20), "red")
    image.paste("blue", (15, 0, 30, 20))
    return data_uri(image)
