"""Sample pictures to try the tools with. They are drawn here, so that none has to be downloaded."""

import io
from collections.abc import Callable
from functools import cache
from math import pi, sin

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps

FINE = 3
"""Pictures are drawn so many times as large, and made smaller: Pillow draws without smoothing edges."""
CREAM, CLAY, TEAL, MUSTARD, INK = (244, 235, 222), (200, 85, 61), (31, 78, 95), (224, 164, 88), (34, 34, 59)
SAMPLES = [
    {"name": "person.png", "kind": "person", "media_type": "image/png"},
    {"name": "lighthouse.png", "kind": "place", "media_type": "image/png"},
    {"name": "vase.png", "kind": "product", "media_type": "image/png"},
    {"name": "shirt.png", "kind": "garment", "media_type": "image/png"},
    {"name": "dots.png", "kind": "garment", "media_type": "image/png"},
    {"name": "tiny.png", "kind": "small", "media_type": "image/png"},
    {"name": "boat.gif", "kind": "clip", "media_type": "image/gif"},
]


@cache
def picture(name: str) -> tuple[bytes, str] | None:
    """The bytes and the type of a sample; None if there is no such sample."""
    if name == "boat.gif":
        return clip(), "image/gif"
    if (draw := DRAWN.get(name)) is None:
        return None
    file = io.BytesIO()
    draw().save(file, "PNG", optimize=True)
    return file.getvalue(), "image/png"


def person(width: int = 480, height: int = 600) -> Image.Image:
    """A person before a wall."""
    image, draw, at = _canvas(width, height, _fade((246, 214, 189), (222, 158, 133), width, height))
    skin, shade, hair, shirt = (233, 178, 140), (214, 150, 112), (58, 36, 42), (38, 84, 106)
    draw.ellipse(at(0.16, 0.08, 0.84, 0.62), fill=(250, 226, 204))
    draw.ellipse(at(0.27, 0.13, 0.73, 0.56), fill=hair)
    draw.rounded_rectangle(at(0.27, 0.32, 0.73, 0.60), radius=at.x(0.12), fill=hair)
    draw.ellipse(at(0.08, 0.63, 0.92, 1.40), fill=shirt)
    draw.rounded_rectangle(at(0.425, 0.46, 0.575, 0.70), radius=at.x(0.07), fill=shade)
    draw.pieslice(at(0.37, 0.58, 0.63, 0.76), 0, 180, fill=skin)
    draw.ellipse(at(0.335, 0.20, 0.665, 0.545), fill=skin)
    draw.pieslice(at(0.30, 0.145, 0.70, 0.44), 180, 360, fill=hair)
    draw.polygon([at.point(0.30, 0.29), at.point(0.56, 0.29), at.point(0.335, 0.40)], fill=hair)
    for x in (0.435, 0.565):
        draw.ellipse(at(x - 0.016, 0.372, x + 0.016, 0.398), fill=INK)
        draw.arc(at(x - 0.04, 0.325, x + 0.04, 0.375), 200, 340, fill=hair, width=at.x(0.010))
        draw.ellipse(at(x - 0.052, 0.418, x + 0.052, 0.452), fill=(236, 160, 128))
    draw.line([at.point(0.505, 0.385), at.point(0.520, 0.430), at.point(0.498, 0.436)], fill=shade, width=at.x(0.010))
    draw.arc(at(0.445, 0.435, 0.555, 0.488), 20, 160, fill=(170, 70, 64), width=at.x(0.013))
    return _grained(image, width, height)


def lighthouse(width: int = 600, height: int = 480) -> Image.Image:
    """A lighthouse at dusk."""
    image, draw, at = _canvas(width, height, _fade((36, 52, 96), (250, 170, 120), width, height))
    for radius, light in ((0.13, (253, 196, 140)), (0.10, (255, 219, 160))):
        draw.ellipse(
            (*at.point(0.30 - radius, 0.60 - radius * 1.25), *at.point(0.30 + radius, 0.60 + radius * 1.25)), fill=light
        )
    draw.rectangle(at(0, 0.62, 1, 1), fill=(38, 70, 100))
    for number in range(16):
        y, half = 0.635 + number * 0.019, 0.10 + 0.012 * (number * 7 % 5)
        draw.line([at.point(0.30 - half, y), at.point(0.30 + half, y)], fill=(246, 182, 130), width=at.x(0.004))
    draw.polygon(
        [at.point(*one) for one in ((0.46, 1), (0.54, 0.80), (0.66, 0.70), (0.86, 0.70), (1, 0.78), (1, 1))],
        fill=(26, 36, 54),
    )
    draw.polygon([at.point(*one) for one in ((0.690, 0.71), (0.722, 0.30), (0.798, 0.30), (0.830, 0.71))], fill=CREAM)
    for low, high in ((0.62, 0.53), (0.44, 0.36)):
        left = [0.760 - (0.038 + (y - 0.30) * 0.079) for y in (low, high)]
        right = [0.760 + (0.038 + (y - 0.30) * 0.079) for y in (low, high)]
        draw.polygon(
            [at.point(left[0], low), at.point(left[1], high), at.point(right[1], high), at.point(right[0], low)],
            fill=CLAY,
        )
    draw.rectangle(at(0.706, 0.283, 0.814, 0.303), fill=INK)
    draw.rectangle(at(0.730, 0.215, 0.790, 0.283), fill=(255, 232, 160))
    draw.polygon([at.point(0.720, 0.217), at.point(0.760, 0.155), at.point(0.800, 0.217)], fill=CLAY)
    beam = Image.new("L", image.size, 0)
    ImageDraw.Draw(beam).polygon([at.point(0.735, 0.245), at.point(0, 0.02), at.point(0, 0.34)], fill=105)
    image.paste((255, 236, 190), (0, 0), beam.filter(ImageFilter.GaussianBlur(at.x(0.012))))
    for number in range(26):
        x, y = (number * 0.377) % 1, (number * 0.193) % 0.30
        draw.ellipse((*at.point(x, y), *at.point(x + 0.004, y + 0.005)), fill=(240, 230, 220))
    return _grained(image, width, height)


def vase(width: int = 480, height: int = 480) -> Image.Image:
    """A vase on white, as a shop has it."""
    image, draw, at = _canvas(width, height, Image.new("RGB", (width * FINE, height * FINE), (250, 249, 247)))
    for bend, tip in ((-0.17, 0.16), (0.02, 0.08), (0.19, 0.18)):
        stem = [at.point(0.5 + bend * (step / 12) ** 2, 0.44 - (0.44 - tip) * step / 12) for step in range(13)]
        draw.line(stem, fill=(74, 104, 82), width=at.x(0.011), joint="curve")
        x, y = 0.5 + bend, tip
        for turn, colour in ((0, (226, 120, 90)), (1, (240, 150, 110))):
            draw.ellipse(
                at(
                    x - 0.062 + turn * 0.022, y - 0.055 + turn * 0.02, x + 0.062 - turn * 0.022, y + 0.055 - turn * 0.02
                ),
                fill=colour,
            )
    outline = [
        (0.5 + side * _belly(step / 40), 0.42 + 0.48 * step / 40)
        for side in (-1, 1)
        for step in (range(41) if side < 0 else range(40, -1, -1))
    ]
    draw.polygon([at.point(*one) for one in outline], fill=TEAL)
    draw.ellipse(at(0.5 - 0.075, 0.405, 0.5 + 0.075, 0.435), fill=(20, 54, 68))
    shine = Image.new("L", image.size, 0)
    ImageDraw.Draw(shine).ellipse(at(0.36, 0.55, 0.45, 0.82), fill=110)
    image.paste((150, 205, 214), (0, 0), shine.filter(ImageFilter.GaussianBlur(at.x(0.022))))
    for y in (0.62, 0.66):
        half = _belly((y - 0.42) / 0.48)
        draw.line([at.point(0.5 - half, y), at.point(0.5 + half, y)], fill=MUSTARD, width=at.x(0.012))
    return _grained(image, width, height, 4)


def shirt(width: int = 400, height: int = 400) -> Image.Image:
    """A striped shirt."""
    cloth = Image.new("RGB", (width * FINE, height * FINE), CREAM)
    draw = ImageDraw.Draw(cloth)
    step = height * FINE // 14
    for number in range(0, 14, 2):
        draw.rectangle((0, number * step, width * FINE, number * step + step * 3 // 4), fill=(178, 58, 72))
    return _garment(cloth, width, height)


def dots(width: int = 400, height: int = 400) -> Image.Image:
    """A mustard shirt with dots."""
    cloth = Image.new("RGB", (width * FINE, height * FINE), (218, 160, 72))
    draw = ImageDraw.Draw(cloth)
    step = width * FINE // 12
    for row in range(13):
        for column in range(13):
            x, y = column * step + (row % 2) * step // 2, row * step
            draw.ellipse((x, y, x + step // 4, y + step // 4), fill=(250, 232, 196))
    return _garment(cloth, width, height)


def tiny() -> Image.Image:
    """The lighthouse as an old telephone saw it."""
    return lighthouse().resize((150, 120), Image.Resampling.LANCZOS)


def clip(width: int = 160, height: int = 120, frames: int = 16) -> bytes:
    """A boat on the waves, as an animated GIF."""
    shown = []
    for number in range(frames):
        turn = 2 * pi * number / frames
        image, draw, at = _canvas(width, height, _fade((246, 214, 189), (250, 238, 220), width, height))
        draw.ellipse(at(0.66, 0.14, 0.82, 0.35), fill=CLAY)
        x, y = 0.45 + 0.02 * sin(turn), 0.60 + 0.03 * sin(turn + 1)
        draw.polygon(
            [at.point(x + dx, y + dy) for dx, dy in ((-0.15, 0), (0.17, 0), (0.11, 0.10), (-0.10, 0.10))], fill=INK
        )
        draw.polygon([at.point(x + dx, y + dy) for dx, dy in ((0, -0.40), (0, -0.03), (-0.13, -0.03))], fill=MUSTARD)
        draw.polygon([at.point(x + dx, y + dy) for dx, dy in ((0.02, -0.34), (0.02, -0.03), (0.13, -0.03))], fill=CREAM)
        for layer, colour in ((0, (60, 120, 140)), (1, TEAL)):
            crest = [
                at.point(step / 24, 0.68 + layer * 0.12 + 0.025 * sin(step * 0.9 + turn * (1 - 2 * layer) + layer))
                for step in range(25)
            ]
            draw.polygon([*crest, at.point(1, 1), at.point(0, 1)], fill=colour)
        shown.append(image.resize((width, height), Image.Resampling.LANCZOS))
    file = io.BytesIO()
    shown[0].save(file, "GIF", save_all=True, append_images=shown[1:], duration=90, loop=0)
    return file.getvalue()


DRAWN: dict[str, Callable[[], Image.Image]] = {
    "person.png": person,
    "lighthouse.png": lighthouse,
    "vase.png": vase,
    "shirt.png": shirt,
    "dots.png": dots,
    "tiny.png": tiny,
}


class _Place:
    """From shares of the picture to its pixels."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width * FINE, height * FINE

    def __call__(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        return (*self.point(left, top), *self.point(right, bottom))

    def point(self, x: float, y: float) -> tuple[float, float]:
        return x * self._width, y * self._height

    def x(self, share: float) -> int:
        return max(1, round(share * self._width))


def _canvas(width: int, height: int, ground: Image.Image) -> tuple[Image.Image, ImageDraw.ImageDraw, _Place]:
    return ground, ImageDraw.Draw(ground), _Place(width, height)


def _fade(top: tuple[int, int, int], bottom: tuple[int, int, int], width: int, height: int) -> Image.Image:
    return ImageOps.colorize(Image.linear_gradient("L").resize((width * FINE, height * FINE)), top, bottom)


def _grained(image: Image.Image, width: int, height: int, strength: int = 5) -> Image.Image:
    """The picture in its own size, with the grain of paper."""
    small = image.resize((width, height), Image.Resampling.LANCZOS)
    grain = Image.effect_noise((width, height), strength).convert("RGB")
    return ImageChops.add(small, grain, 1, -128)


def _belly(share: float) -> float:
    """Half of the vase's width, from its mouth to its foot."""
    return 0.075 + 0.115 * sin(pi * min(1.0, share * 1.04)) ** 1.3 - 0.005 * share


def _garment(cloth: Image.Image, width: int, height: int) -> Image.Image:
    """The cloth cut as a shirt, on white."""
    at = _Place(width, height)
    mask = Image.new("L", cloth.size, 0)
    draw = ImageDraw.Draw(mask)
    body = (
        (0.30, 0.14),
        (0.70, 0.14),
        (0.93, 0.30),
        (0.83, 0.47),
        (0.72, 0.40),
        (0.72, 0.90),
        (0.28, 0.90),
        (0.28, 0.40),
        (0.17, 0.47),
        (0.07, 0.30),
    )
    draw.polygon([at.point(*one) for one in body], fill=255)
    draw.ellipse(at(0.41, 0.07, 0.59, 0.22), fill=0)
    shadow = mask.filter(ImageFilter.GaussianBlur(at.x(0.02))).point(lambda value: value // 4)
    image = Image.new("RGB", cloth.size, (250, 249, 247))
    image.paste((60, 50, 60), (0, at.x(0.015)), shadow)
    folds = _fade((255, 255, 255), (214, 206, 210), width, height)
    image.paste(ImageChops.multiply(cloth, folds), (0, 0), mask)
    return _grained(image, width, height, 4)
