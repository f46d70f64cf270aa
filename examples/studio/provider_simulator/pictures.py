"""What the simulated models do to a picture: honest work with Pillow, so that a result can be told from its input."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Any

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps, ImageSequence

MOST_PIXELS = 40_000_000
"""What one result may have, all of its frames together."""
MOST_FRAMES = 200
MEDIA_TYPES = {"PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp"}

Picture = Image.Image
Draw = Callable[[Picture, list[Picture], dict[str, Any]], Picture]


class BadInput(Exception):
    """The input cannot be worked on; its text is what the provider says."""


class Made:
    """A result: its bytes, and what they are."""

    def __init__(self, data: bytes, format: str, size: tuple[int, int]) -> None:
        self.data = data
        self.size = len(data)
        self.media_type = MEDIA_TYPES[format]
        self.suffix = format.lower()
        self.width, self.height = size


def make(model: str, given: dict[str, Any], images: list[bytes]) -> Made:
    """The result of a model.

    model: its name; the kind of work is told by the words in it, as in `acme/image-upscaler`.
    given: the inputs that are no pictures.
    images: the bytes of those that are: the first is worked on, the others are added to it.
    """
    draw = _kind(model)
    opened = [_opened(data) for data in images]
    if not opened:
        if draw is not freestyle:
            raise BadInput("image: field required")
        opened = [_imagined(str(given.get("prompt", "")))]
    first, *others = opened
    others = [other.convert("RGB") for other in others]
    frames = getattr(first, "n_frames", 1)
    if frames > MOST_FRAMES:
        raise BadInput(f"the clip has {frames} frames; at most {MOST_FRAMES} are taken")
    _check_pixels(first.width * first.height * frames)
    if draw is upscale:
        _check_pixels(first.width * first.height * frames * _scale(given) ** 2)
    if frames == 1:
        return _still(draw(first.convert("RGB"), others, given))
    return _clip(first, lambda frame: draw(frame, others, given))


def upscale(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    scale = _scale(given)
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.LANCZOS)


def pose(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The figure turns round and leans."""
    return ImageOps.mirror(picture).rotate(12, Image.Resampling.BICUBIC, fillcolor=(235, 235, 235))


def outfit(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """Other clothes: the middle of the picture in another colour, or in that of the picture given for it."""
    return _dressed(picture, others, _colour(str(given.get("prompt", "outfit"))))


def try_on(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The garment on the person."""
    if not others:
        raise BadInput("garment_image: field required")
    return _dressed(picture, others, (0, 0, 0))


def product(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The product in a studio: on a square, lit background, with a shadow."""
    side = max(picture.size) * 5 // 4
    scene = ImageOps.colorize(Image.radial_gradient("L").resize((side, side)), "white", (150, 160, 175))
    corner = ((side - picture.width) // 2, (side - picture.height) // 2)
    shadow = Image.new("L", (side, side), 0)
    shadow.paste(120, (corner[0] + side // 40, corner[1] + side // 30), Image.new("L", picture.size, 255))
    scene.paste((60, 60, 70), (0, 0), shadow.filter(ImageFilter.GaussianBlur(max(1, side // 60))))
    scene.paste(picture, corner)
    return scene


def freestyle(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The picture in the colours that its prompt asks for."""
    grey = ImageOps.autocontrast(ImageOps.grayscale(picture))
    light = _colour(str(given.get("prompt", "freestyle")))
    return ImageOps.posterize(ImageOps.colorize(grey, "black", "white", mid=light), 4)


def workflow(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """Several steps after each other: edges, ink on paper, a frame."""
    edges = ImageOps.invert(ImageOps.grayscale(picture).filter(ImageFilter.FIND_EDGES))
    drawn = ImageChops.multiply(picture, ImageOps.colorize(edges, "black", "white"))
    return ImageOps.expand(drawn, border=max(2, picture.width // 20), fill=(30, 30, 30))


KINDS: dict[str, Draw] = {
    "upscale": upscale,
    "pose": pose,
    "outfit": outfit,
    "try-on": try_on,
    "tryon": try_on,
    "product": product,
    "freestyle": freestyle,
    "workflow": workflow,
}
"""What the words in a model's name ask for."""


def _kind(model: str) -> Draw:
    name = model.lower().partition("--for-")[0]
    for word, draw in KINDS.items():
        if word in name:
            return draw
    raise BadInput(f"no model is called {model!r}; a name has one of these words in it: {', '.join(KINDS)}")


def _scale(given: dict[str, Any]) -> int:
    try:
        scale = int(given.get("scale", 2))
    except (TypeError, ValueError):
        scale = 0
    if scale not in (2, 4):
        raise BadInput("scale: must be 2 or 4")
    return scale


def _opened(data: bytes) -> Picture:
    try:
        picture = Image.open(io.BytesIO(data))
        _check_pixels(picture.width * picture.height)
        picture.load()
    except BadInput:
        raise
    except Exception as error:  # Pillow raises many kinds on bytes that are no picture
        raise BadInput("cannot identify image file") from error
    return picture


def _check_pixels(pixels: int) -> None:
    if pixels > MOST_PIXELS:
        raise BadInput(f"the picture would have {pixels} pixels; at most {MOST_PIXELS} are made")


def _still(picture: Picture) -> Made:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return Made(out.getvalue(), "PNG", picture.size)


def _clip(clip: Picture, draw: Callable[[Picture], Picture]) -> Made:
    """Frame by frame, in the format and with the speed that the clip came with."""
    format = clip.format if clip.format in MEDIA_TYPES else "PNG"
    frames, durations = [], []
    for frame in ImageSequence.Iterator(clip):
        frame.load()  # a WebP knows its durations only then
        durations.append(frame.info.get("duration", 100))
        frames.append(draw(frame.convert("RGB")))
    out = io.BytesIO()
    frames[0].save(out, format, save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return Made(out.getvalue(), format, frames[0].size)


def _dressed(picture: Picture, others: list[Picture], colour: tuple[int, int, int]) -> Picture:
    box = (picture.width // 4, picture.height // 3, picture.width * 3 // 4, picture.height * 5 // 6)
    size = (max(1, box[2] - box[0]), max(1, box[3] - box[1]))
    cloth = ImageOps.fit(others[0], size) if others else Image.new("RGB", size, colour)
    dressed = picture.copy()
    dressed.paste(Image.blend(dressed.resize(size, box=box), cloth, 0.8), box[:2])
    return dressed


def _imagined(prompt: str) -> Picture:
    """A picture out of words alone."""
    picture = ImageOps.colorize(Image.linear_gradient("L"), _colour(prompt), _colour(prompt[::-1]))
    ImageDraw.Draw(picture).text((16, 120), prompt[:36], fill="white")
    return picture


def _colour(words: str) -> tuple[int, int, int]:
    red, green, blue = hashlib.sha256(words.encode()).digest()[:3]
    return red, green, blue
