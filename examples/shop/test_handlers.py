"""Each handler is a function, called with a fake job."""

from jobs import embed, upscale, video

from ficha import Accepted
from ficha.testing import FakeJobContext


async def test_a_retried_upscale_does_not_pay_again() -> None:
    job = FakeJobContext(stored={"upscale": "paid for before"}, attempt=2)
    assert await upscale(job, image="cat.png") == {"image": "paid for before"}
    assert job.reported == [90]


def test_texts_are_embedded_one_by_one() -> None:
    job = FakeJobContext()
    assert len(embed(job.in_thread, texts=["a", "b"])) == 2
    assert job.reported == [50, 100]


async def test_a_video_is_ordered_under_the_jobs_own_key() -> None:
    job = FakeJobContext()
    assert await video(job, prompt="waves") == Accepted(f"video-{job.id}")
