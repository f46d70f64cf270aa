"""Draws the picture that comes with the example: `python draw.py` writes pictures/lighthouse.png again."""

from pathlib import Path

from PIL import Image, ImageDraw

PICTURE = Path(__file__).parent / "pictures" / "lighthouse.png"
SIZE = (120, 90)


def lighthouse() -> Image.Image:
    picture = Image.new("RGB", SIZE)
    pen = ImageDraw.Draw(picture)
    for y in range(60):  # dusk, down to the sea
        pen.line([(0, y), (120, y)], fill=(30 + 3 * y, 40 + 2 * y, 110 + y))
    for y in range(60, 90):
        pen.line([(0, y), (120, y)], fill=(20, 70 - (y - 60), 110 - 2 * (y - 60)))
    pen.polygon([(36, 22), (120, 4), (120, 34)], fill=(250, 235, 160))  # the beam
    pen.polygon([(0, 90), (0, 72), (22, 64), (48, 66), (66, 78), (70, 90)], fill=(60, 50, 45))  # the rock
    pen.polygon([(26, 68), (30, 28), (42, 28), (46, 68)], fill=(240, 240, 235))
    for top in (34, 46, 58):
        pen.polygon([(29, top), (43, top), (44, top + 6), (28, top + 6)], fill=(190, 50, 45))
    pen.rectangle([(31, 17), (41, 27)], fill=(255, 220, 110), outline=(40, 40, 50))
    pen.polygon([(29, 17), (36, 9), (43, 17)], fill=(60, 30, 35))
    for x in range(4, 120, 16):
        pen.arc([(x, 76 + x % 5), (x + 12, 82 + x % 5)], 200, 340, fill=(120, 160, 190))
    return picture


if __name__ == "__main__":
    lighthouse().save(PICTURE, optimize=True)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes")
