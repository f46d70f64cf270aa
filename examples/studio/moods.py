"""The studio's own model: a picture in another light."""

import io

from PIL import Image, ImageChops, ImageEnhance, ImageOps

MOST_SIDE = 1_600
LIGHTS = {
    "morning": ((255, 214, 170), 0.95, 1.06),
    "noon": ((255, 250, 225), 1.25, 1.12),
    "dusk": ((226, 120, 120), 1.10, 0.86),
    "night": ((64, 88, 160), 0.80, 0.80),
}
"""The colour of the light, how strong colours are in it, and how bright it is."""


def lit(data: bytes, light: str) -> bytes:
    colour, strength, brightness = LIGHTS[light]
    with Image.open(io.BytesIO(data)) as opened:
        picture = ImageOps.exif_transpose(opened).convert("RGB")
    picture.thumbnail((MOST_SIDE, MOST_SIDE))
    picture = ImageEnhance.Brightness(ImageEnhance.Color(picture).enhance(strength)).enhance(brightness)
    tinted = ImageChops.multiply(picture, Image.new("RGB", picture.size, colour))
    sky = ImageOps.colorize(Image.linear_gradient("L").resize(picture.size), colour, (0, 0, 0))
    file = io.BytesIO()
    ImageChops.screen(tinted, ImageEnhance.Brightness(sky).enhance(0.35)).save(file, "PNG")
    return file.getvalue()
