"""What the simulated models do to a picture: honest work with Pillow, so that a result can be told from its input."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from math import sin
from typing import Any

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps, ImageSequence

MOST_PIXELS = 40_000_000
"""What one result may have, all of its frames together."""
MOST_FRAMES = 200
FILL_SIDE = 240
PLAIN = 40
"""By how much the corners of a picture may differ for its background to be a plain one."""
PALETTES = (
    ("#f6d6bd", "#fbeedb", "#d9573c", "#e8b48a", "#c8795c", "#7f4a4e", "#3a2c42"),
    ("#24345e", "#f0a878", "#ffe0a8", "#6d5f8c", "#4a4774", "#2b325a", "#171f3d"),
    ("#9fc9c3", "#eef3e2", "#fff6d8", "#8fb49a", "#5f8d7c", "#35635f", "#1b3f46"),
    ("#dfe6ee", "#f9f4ee", "#f2c14e", "#b9c6d6", "#8698b0", "#55698a", "#2c3b5a"),
    ("#f3c4c0", "#fde9d9", "#fff3c9", "#d99aa5", "#a86a86", "#694a70", "#33284e"),
)
"""Sky, horizon, sun and four hills, for pictures that are made of words."""
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
        return _still(draw(first.convert("RGB"), others, given) if images else first)
    return _clip(first, lambda frame: draw(frame, others, given))


def variation(data: bytes, number: int) -> bytes:
    """Another picture like this one, for those who asked for several: the same in other colours."""
    hue, saturation, value = Image.open(io.BytesIO(data)).convert("HSV").split()
    turned = hue.point(lambda one: (one + 37 * number) % 256)
    out = io.BytesIO()
    Image.merge("HSV", (turned, saturation, value)).convert("RGB").save(out, "PNG")
    return out.getvalue()


def upscale(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    scale = _scale(given)
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.LANCZOS)


def pose(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The figure turns round and leans. What comes into view at the edges is what was there, mirrored."""
    turned = ImageOps.mirror(picture)
    wide = Image.new("RGB", (picture.width * 3, picture.height * 3))
    for column in range(3):
        for row in range(3):
            tile = ImageOps.mirror(turned) if column != 1 else turned
            wide.paste(ImageOps.flip(tile) if row != 1 else tile, (column * picture.width, row * picture.height))
    leaning = wide.rotate(9, Image.Resampling.BICUBIC)
    return leaning.crop((picture.width, picture.height, picture.width * 2, picture.height * 2))


def outfit(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """Other clothes: the middle of the picture in another colour, or in that of the picture given for it."""
    return _dressed(picture, others, _colour(str(given.get("prompt", "outfit"))))


def try_on(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The garment on the person."""
    if not others:
        raise BadInput("garment_image: field required")
    return _dressed(picture, others, (0, 0, 0))


def product(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The product in a studio: cut out of its plain background, if it has one, on a lit square, with a shadow."""
    side = max(picture.size) * 5 // 4
    dark = _colour(str(given.get("prompt", "studio")))
    light = tuple(200 + value // 5 for value in dark)
    scene = ImageOps.colorize(Image.radial_gradient("L").resize((side, side)), light, _darker(light))
    corner = ((side - picture.width) // 2, (side - picture.height) // 2)
    shape = _cut_out(picture)
    shadow = Image.new("L", (side, side), 0)
    shadow.paste(shape.point(lambda value: value * 2 // 5), (corner[0] + side // 40, corner[1] + side // 30))
    scene.paste((50, 50, 60), (0, 0), shadow.filter(ImageFilter.GaussianBlur(max(1, side // 60))))
    scene.paste(picture, corner, shape)
    return scene


def freestyle(picture: Picture, others: list[Picture], given: dict[str, Any]) -> Picture:
    """The picture in the colours that its prompt asks for. Without a picture, one is made up: `_imagined`."""
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
    """The clothes are what is of one colour around the lower middle, or else a part of the picture there."""
    seed = (picture.width // 2, picture.height * 17 // 20)
    worn = _of_one_colour(picture, [seed], 40)
    if worn.histogram()[255] < picture.width * picture.height // 20:
        box = (picture.width // 4, picture.height // 3, picture.width * 3 // 4, picture.height * 5 // 6)
        worn.paste(255, box)
    cloth = _tiled(_middle(others[0]), picture.size) if others else Image.new("RGB", picture.size, colour)
    folds = ImageOps.autocontrast(ImageOps.grayscale(picture)).point(lambda value: 222 + value * 33 // 255)
    cloth = ImageChops.multiply(cloth, folds.convert("RGB"))
    return Image.composite(cloth, picture, worn.filter(ImageFilter.GaussianBlur(max(0.5, picture.width / 480))))


def _middle(picture: Picture) -> Picture:
    """The part of a garment's picture that is cloth for certain."""
    width, height = picture.size
    return picture.crop((width * 3 // 10, height * 4 // 10, width * 7 // 10, height * 17 // 20))


def _tiled(cloth: Picture, size: tuple[int, int]) -> Picture:
    """As much of the cloth as there is room for. Every second piece is mirrored, so that no seam is seen."""
    width = max(1, size[0] // 3)
    piece = cloth.resize((width, max(1, cloth.height * width // cloth.width)))
    tiled = Image.new("RGB", size)
    for column, x in enumerate(range(0, size[0], piece.width)):
        for row, y in enumerate(range(0, size[1], piece.height)):
            tile = ImageOps.mirror(piece) if column % 2 else piece
            tiled.paste(ImageOps.flip(tile) if row % 2 else tile, (x, y))
    return tiled


def _cut_out(picture: Picture) -> Picture:
    """What stands before a plain background, as a mask; the whole picture if it has none."""
    right, bottom = picture.width - 1, picture.height - 1
    corners = [(0, 0), (right, 0), (0, bottom), (right, bottom)]
    calm = picture.filter(ImageFilter.BoxBlur(2))
    seen = [calm.getpixel(corner) for corner in corners]
    if any(max(values) - min(values) > PLAIN for values in zip(*seen, strict=True)):
        return Image.new("L", picture.size, 255)
    ground = _of_one_colour(picture, corners, 24)
    return ImageOps.invert(ground).filter(ImageFilter.GaussianBlur(max(0.5, picture.width / 480)))


def _of_one_colour(picture: Picture, seeds: list[tuple[int, int]], spread: int) -> Picture:
    """Where the picture has the colour that it has at these places, and is joined to them, as a mask. Found on a small
    copy: Pillow fills pixel by pixel."""
    small = picture.filter(ImageFilter.MedianFilter(3))
    small.thumbnail((FILL_SIDE, FILL_SIDE))
    mask = Image.new("L", small.size, 0)
    for x, y in seeds:
        seed = (min(x * small.width // picture.width, small.width - 1), y * small.height // picture.height)
        if mask.getpixel(seed):
            continue
        filled = small.copy()
        red, green, blue = filled.getpixel(seed)
        ImageDraw.floodfill(filled, seed, (255 - red, 255 - green, (blue + 128) % 256), thresh=spread)
        changed = ImageChops.difference(filled, small).convert("L").point(lambda value: 255 if value else 0)
        mask = ImageChops.lighter(mask, changed)
    return mask.resize(picture.size, Image.Resampling.BICUBIC).point(lambda value: 255 if value > 127 else 0)


def _imagined(prompt: str) -> Picture:
    """A picture out of words alone: hills under a sky, in colours that the words decide."""
    side = 1_024
    chance = hashlib.sha256(prompt.encode()).digest()
    sky, glow, sun, *hills = PALETTES[chance[0] % len(PALETTES)]
    picture = ImageOps.colorize(Image.linear_gradient("L").resize((side, side)), sky, glow)
    draw = ImageDraw.Draw(picture)
    x, y, radius = 140 + chance[3] * 3, 180 + chance[4], 60 + chance[5] // 4
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=sun)
    for layer, tone in enumerate(hills):
        wave, phase, high = 1 + chance[6 + layer] % 3, chance[10 + layer] / 40, 46 + chance[14 + layer] // 4
        base = side * (54 + layer * 13) // 100
        crest = [(step * 8, base + high * sin(step * wave / 36 + phase)) for step in range(side // 8 + 1)]
        draw.polygon([*crest, (side, side), (0, side)], fill=tone)
    return picture.resize((side // 2, side // 2), Image.Resampling.LANCZOS)


def _darker(colour: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(value * 3 // 4 for value in colour)


def _colour(words: str) -> tuple[int, int, int]:
    red, green, blue = hashlib.sha256(words.encode()).digest()[:3]
    return red, green, blue
