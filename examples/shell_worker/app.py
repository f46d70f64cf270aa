"""What the shell worker works for: a tool whose handler is in another language.

The signature is what matters here: it is the schema of the payload. Serve it with

    FICHA_SECRET=… ficha serve --app examples.shell_worker.app:app
"""

from typing import Annotated

from pydantic import Field

from ficha import Ficha, JobContext, Plan, Pool

app = Ficha(plans=[Plan("free")], pools=[Pool("shell", slots=4)])


@app.tool(pool="shell", cost=2, checkpoints=["COUNTING"])
def count(job: JobContext, upto: Annotated[int, Field(ge=1, le=1_000)]) -> dict:
    """Counts up to a number, one second for each."""
    raise NotImplementedError("worker.sh does this; no worker of Python is to serve the pool `shell`")
