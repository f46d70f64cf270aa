"""The garbage collector in a worker's process."""

from tests.worker.worker_processes import WorkerProcesses, submitted


async def test_collections_do_not_traverse_what_a_worker_process_has_loaded(sqlite_workers: WorkerProcesses) -> None:
    """A full collection of all modules takes 20 ms, and a busy worker has several of them a second."""
    async with sqlite_workers.opened_app() as app:
        job = await submitted(app, "is_traversed")
        assert await sqlite_workers.start("--burst").end() == 0
        assert (await app.job(job)).result is False
