"""A Celery task that was there before Ficha: it keeps its own queue and loop, and gets credits and checkpoints.

Start a worker with `celery -A tasks worker`; `python submit.py` beside this file charges an account. Whatever process
makes a job ready sends its task: the one that submitted it, or the one that took it back from a worker that died.
"""

import os

from celery import Celery

from ficha import CheckpointManager, Ficha, InvalidState, JobContext, ReadyJob


def send(pools: tuple[str, ...], jobs: tuple[ReadyJob, ...]) -> None:
    """Sends a task for each job that may be claimed now. A job may be sent twice: only one task gets it."""
    for job in jobs:
        process_quote.delay(job.id)


ficha = Ficha(os.environ.get("FICHA_DATABASE_URL", "sqlite:///quotes.db"), lease_s=5, on_work=send)


@ficha.tool(cost=3, pool="default", checkpoints=["FOUND", "PRICED"])
async def quote(job: JobContext, products: list[str]) -> dict:
    """What is sold: the payload and the price. The work itself is done by the Celery task below."""
    raise NotImplementedError("quotes are made by the Celery task")


celery = Celery("quotes", broker=os.environ.get("CELERY_BROKER_URL", "memory://"))
celery.conf.broker_transport_options = {
    f"data_folder_{way}": os.environ.get("CELERY_FOLDER", "celery-queue") for way in ("in", "out")
}


def search(product: str) -> int:
    """Stands for a paid call: its price, and a line in a file that shows how often it was made."""
    with open(os.environ.get("QUOTES_LOG", "quotes.log"), "a", encoding="utf-8") as log:
        log.write(f"{product}\n")
    return len(product)


@celery.task(acks_late=True, reject_on_worker_lost=True)
def process_quote(job_id: str) -> None:
    """Goes on where an earlier run stopped: a search that was paid for is not made again."""
    with CheckpointManager(ficha, job_id) as manager:
        try:
            manager.start(wait_s=30)
        except InvalidState:
            return  # Another task has this job, or it has ended.
        products = manager.job.payload["products"]
        if not manager.can_resume:
            manager.save_checkpoint("FOUND", progress=10, data={"products": len(products)})
        prices = {product: manager.job.step(f"price of {product}", search, product) for product in products}
        if os.environ.get("CRASH_ONCE") and not os.path.exists(os.environ["CRASH_ONCE"]):
            open(os.environ["CRASH_ONCE"], "w", encoding="utf-8").close()
            os._exit(1)
        manager.save_checkpoint("PRICED", progress=90)
        manager.complete({"prices": prices})
