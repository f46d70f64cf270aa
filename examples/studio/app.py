"""An image studio that rents its machines: eight tools at three providers and one of its own, and not one line about
queues, credits, refunds or call-backs.

`python run.py` runs it, with a simulated provider unless the keys of the real ones are set. README.md walks through it.
"""

import asyncio
import os
from typing import Annotated, Literal

import httpx
import moods as lights
import providers
from providers import target
from pydantic import Field

from ficha import Ficha, File, JobContext, Plan, Pool
from ficha.providers import ProviderCall

TIMEOUT_S = float(os.environ.get("STUDIO_TIMEOUT_S", "600"))
"""How long RunningHub may have a job before it is given up and paid back."""
QUEUE_S = float(os.environ.get("STUDIO_QUEUE_S", "600"))
"""How long a job waits in the provider queue before it is cancelled and paid back."""
LEAVE_GRACE_S = float(os.environ.get("STUDIO_LEAVE_GRACE_S", "60"))
"""How long after somebody left the page what they had in line is cancelled."""
TRIGGER = os.environ.get("STUDIO_TRIGGER")
"""Where a submit asks for a worker, on a host that runs none of its own; see trigger.py."""


async def start_worker(pools: tuple[str, ...]) -> None:
    """Called when jobs became ready. A call that is lost does no harm: the next one serves those jobs too."""
    assert TRIGGER is not None
    async with httpx.AsyncClient(timeout=10) as client:
        (await client.post(TRIGGER, json={"pools": pools})).raise_for_status()


app = Ficha(
    plans=[
        # One active job per account, over all tools.
        Plan("single", priority=50, max_active=1),
        Plan("free", priority=50, max_running=1, per_hour=10),
        Plan("starter", priority=30, max_running=2, per_hour=50),
        Plan("growth", priority=20, max_running=3, per_hour=100),
        Plan("pro", priority=10, max_running=4, per_hour=999),
    ],
    leave_grace_s=LEAVE_GRACE_S,
    pools=[
        # Three jobs at a time at RunningHub, whichever tool, server and worker they come from.
        Pool("gpu", slots=3),
        Pool("images"),
        # The machine that the worker runs on.
        Pool("own", slots=2),
    ],
    first_job_boost=20,
    # Users and the operator may have Ficha call an address of theirs when jobs end.
    webhooks=True,
    on_work=start_worker if TRIGGER else None,
)
runninghub, replicate, fal = providers.runninghub(), providers.replicate(), providers.fal()

WORK_S = float(os.environ.get("STUDIO_WORK_S", "0"))
"""How long the studio's own tool takes for a picture, besides its work; a model would take seconds."""
Prompt = Annotated[str, Field(min_length=1, max_length=500)]
Images = Annotated[int, Field(ge=1, le=8, description="how many pictures")]
Quality = Literal["standard", "high"]


def price(images: int, quality: Quality) -> int:
    return images * {"standard": 4, "high": 8}[quality]


# The tools of the provider queue. An error is final: no retry, the provider's own words, the credits back.


@app.provider_tool(runninghub, pool="gpu", cost=lambda scale: 3 * scale, timeout=TIMEOUT_S, max_wait=QUEUE_S)
async def image_upscaler(job: JobContext, image: File, scale: Literal[2, 4] = 2) -> ProviderCall:
    """Makes a picture two or four times as large."""
    workflow = target(runninghub, job, "image-upscaler")
    return ProviderCall(workflow, {"2.image": await image.url(), "5.scale": scale}, {"upload": ["2.image"]})


@app.provider_tool(runninghub, pool="gpu", cost=8, timeout=TIMEOUT_S, max_wait=QUEUE_S)
async def pose_changer(job: JobContext, image: File, prompt: Prompt = "turned to the side") -> ProviderCall:
    """Shows the person of a picture in another pose."""
    workflow = target(runninghub, job, "pose-changer")
    return ProviderCall(workflow, {"2.image": await image.url(), "6.prompt": prompt}, {"upload": ["2.image"]})


@app.provider_tool(runninghub, pool="gpu", cost=10, timeout=TIMEOUT_S, max_wait=QUEUE_S)
async def outfit_changer(job: JobContext, image: File, outfit: File) -> ProviderCall:
    """Dresses the person of a picture in the clothes of another one."""
    workflow = target(runninghub, job, "outfit-changer")
    nodes = {"2.image": await image.url(), "3.outfit": await outfit.url()}
    return ProviderCall(workflow, nodes, {"upload": ["2.image", "3.outfit"]})


@app.provider_tool(runninghub, pool="gpu", cost=30, priority=10, timeout=TIMEOUT_S, max_wait=QUEUE_S)
async def video_upscaler(job: JobContext, video: File, scale: Literal[2, 4] = 2) -> ProviderCall:
    """Makes a short clip larger, frame by frame. Videos wait behind pictures of the same plan."""
    workflow = target(runninghub, job, "video-upscaler")
    return ProviderCall(workflow, {"2.video": await video.url(), "5.scale": scale}, {"upload": ["2.video"]})


# The routes of the priority queue. One job makes 1 to 8 pictures; more than four are split into two jobs.


@app.provider_tool(replicate, pool="images", cost=price, items="images", max_items=4, timeout=300)
async def try_on(
    job: JobContext, person: File, garment: File, images: Images = 1, quality: Quality = "standard"
) -> ProviderCall:
    """A garment on a person."""
    pictures = {"person_image": await person.url(), "garment_image": await garment.url()}
    given = {**pictures, "num_outputs": images, "quality": quality}
    return ProviderCall(target(replicate, job, "acme/try-on"), given)


@app.provider_tool(fal, pool="images", cost=price, items="images", max_items=4, timeout=300)
async def product(
    job: JobContext, image: File, scene: Prompt = "a studio", images: Images = 1, quality: Quality = "standard"
) -> ProviderCall:
    """A product in a scene."""
    given = {"image_url": await image.url(), "prompt": scene, "num_images": images, "quality": quality}
    return ProviderCall(target(fal, job, "acme/product"), given)


@app.provider_tool(replicate, pool="images", cost=price, items="images", max_items=4, timeout=300)
async def freestyle(job: JobContext, prompt: Prompt, images: Images = 1, quality: Quality = "standard") -> ProviderCall:
    """Pictures out of words."""
    given = {"prompt": prompt, "num_outputs": images, "quality": quality}
    return ProviderCall(target(replicate, job, "acme/freestyle"), given)


@app.provider_tool(fal, pool="images", cost=price, items="images", max_items=4, timeout=300)
async def workflow(
    job: JobContext, image: File, prompt: Prompt, images: Images = 1, quality: Quality = "standard"
) -> ProviderCall:
    """A picture through several models, one after the other."""
    given = {"image_url": await image.url(), "prompt": prompt, "num_images": images, "quality": quality}
    return ProviderCall(target(fal, job, "acme/workflow"), given)


# A tool of the studio's own, on the worker itself: it tells how far it is, and shows each picture when it is ready.


@app.tool(pool="own", cost=lambda images: 2 * images, timeout=120, items="images", max_items=4)
async def moods(
    job: JobContext, image: File, images: Annotated[int, Field(ge=1, le=4, description="how many lights")] = 4
) -> dict[str, list[File]]:
    """A picture in up to four lights: morning, noon, dusk and night."""
    original, made = await image.read(), []
    for number, light in enumerate(list(lights.LIGHTS)[:images]):
        await asyncio.sleep(WORK_S)
        picture = await asyncio.to_thread(lights.lit, original, light)
        # A run that is repeated after a crash finds the pictures that it has saved.
        made.append(await job.step(light, job.save, f"{light}.png", picture))
        await job.partial({"files": made}, progress=100 * (number + 1) // images)
    return {"files": made}
