"""The conformance suite: every store passes all of it.

Subclass it in a test file, with one fixture, `driver`, that opens an empty store on a `ManualClock`:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def driver(self, tmp_path):
            clock = ManualClock()
            store = MyStore(tmp_path / "ficha.db", clock=clock)
            await store.migrate()
            await store.open()
            yield Driver(store, clock)
            await store.close()

The tests are coroutines; pytest-asyncio runs them (`asyncio_mode = "auto"`, or `@pytest.mark.asyncio` on the class).
`pytest.register_assert_rewrite("ficha.testing")` before the import makes failures show what differs.
"""

from .brakes import BrakeConformance
from .bulk_acts import BulkActConformance
from .commit_groups import CommitGroupConformance
from .due import DueConformance
from .events import EventConformance
from .figures import FigureConformance
from .files import FileConformance
from .identity import IdentityConformance
from .library import LibraryConformance
from .listings import ListingConformance
from .loading import LoadingConformance
from .operators import OperatorConformance
from .polls import PollConformance
from .records import RecordConformance
from .retention import RetentionConformance
from .searches import SearchConformance
from .sessions import SessionConformance
from .texts import TextConformance
from .turns import TurnConformance
from .webhooks import WebhookConformance
from .workers import WorkerConformance


class StoreConformance(
    RecordConformance,
    TextConformance,
    LoadingConformance,
    CommitGroupConformance,
    ListingConformance,
    EventConformance,
    DueConformance,
    PollConformance,
    FigureConformance,
    WorkerConformance,
    IdentityConformance,
    FileConformance,
    WebhookConformance,
    LibraryConformance,
    SearchConformance,
    OperatorConformance,
    TurnConformance,
    SessionConformance,
    BrakeConformance,
    BulkActConformance,
    RetentionConformance,
):
    """All tests of the suite."""


__all__ = ["StoreConformance"]
