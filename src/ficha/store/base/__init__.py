"""What a store must do, and nothing about how: the protocol, its errors, and the queries of the read side.

A store is opened, runs transactions, answers queries and is closed. All three stores pass the one conformance suite of
`ficha.testing`.

The protocol is in `store.py`, its errors are in `errors.py`, and the queries of each noun have a file; everything is
imported from here.
"""

from .accounts import GetAccount, ListAccounts, ListEntries, ListKeys, ListReservations
from .api_keys import ApiKeyList, ApiKeyRow, GetApiKey, GetRevokedApiKeys, ListApiKeys, ListAudit, NumberedLine
from .errors import NOT_SHARED, CommitUnknown, SchemaMismatch, StoreError, Transient, Unavailable
from .events import (
    EVENTS_SEARCHED,
    Commit,
    GetFirstSearched,
    GetHistory,
    GetHorizon,
    Horizon,
    ListAccepted,
    ListCommits,
    ListJobEvents,
    NumberedEvent,
)
from .files import GetFiles, GetFileUsage, ListDueFiles, ListFiles, ListLinkedFiles
from .hooks import ListHooks
from .jobs import LEFT_OUT, BatchCounts, GetBatch, GetJobs, JobRow, ListJobs, ListSteps, without_texts
from .library import CLOCKS_APART, LibraryPart, ListLibrary
from .pools import ListPools, ListWorkers, PoolCounts, WorkerCounts, WorkerList
from .providers import DuePoll, GetMargins, ListPolls, ListProviders, MarginLine, ProviderRow
from .query import Query
from .searches import CountJobs, CountPart, Found, JobMatch, SearchJobs, SearchPart, Walk, lowered, merged, walks_of
from .sessions import GetPageSessions, ListSessionJobs
from .state import GetSnapshot, GetState
from .store import (
    ASKED_MS,
    COMMITS_KEPT_MS_MIN,
    COMMITS_PRUNED,
    ClaimsWithSubmits,
    Clock,
    Committed,
    Decide,
    Decision,
    Hints,
    Reader,
    Store,
    no_hints,
    wall_clock,
)
from .waiting import COMMITS_AVERAGED, Due, GetDue, GetStats, GetWaiting, Stats, Waiting
from .webhooks import CountDeliveries, GetWebhookEndpoints, ListDeliveries, ListDueDeliveries, ListOldDeliveries

__all__ = [
    "ASKED_MS",
    "CLOCKS_APART",
    "COMMITS_AVERAGED",
    "COMMITS_KEPT_MS_MIN",
    "COMMITS_PRUNED",
    "EVENTS_SEARCHED",
    "LEFT_OUT",
    "NOT_SHARED",
    "ApiKeyList",
    "ApiKeyRow",
    "BatchCounts",
    "ClaimsWithSubmits",
    "Clock",
    "Commit",
    "CommitUnknown",
    "Committed",
    "CountDeliveries",
    "CountJobs",
    "CountPart",
    "Decide",
    "Decision",
    "Due",
    "DuePoll",
    "Found",
    "GetAccount",
    "GetApiKey",
    "GetBatch",
    "GetDue",
    "GetFileUsage",
    "GetFiles",
    "GetFirstSearched",
    "GetHistory",
    "GetHorizon",
    "GetJobs",
    "GetMargins",
    "GetPageSessions",
    "GetRevokedApiKeys",
    "GetSnapshot",
    "GetState",
    "GetStats",
    "GetWaiting",
    "GetWebhookEndpoints",
    "Hints",
    "Horizon",
    "JobMatch",
    "JobRow",
    "LibraryPart",
    "ListAccepted",
    "ListAccounts",
    "ListApiKeys",
    "ListAudit",
    "ListCommits",
    "ListDeliveries",
    "ListDueDeliveries",
    "ListDueFiles",
    "ListEntries",
    "ListFiles",
    "ListHooks",
    "ListJobEvents",
    "ListJobs",
    "ListKeys",
    "ListLibrary",
    "ListLinkedFiles",
    "ListOldDeliveries",
    "ListPolls",
    "ListPools",
    "ListProviders",
    "ListReservations",
    "ListSessionJobs",
    "ListSteps",
    "ListWorkers",
    "MarginLine",
    "NumberedEvent",
    "NumberedLine",
    "PoolCounts",
    "ProviderRow",
    "Query",
    "Reader",
    "SchemaMismatch",
    "SearchJobs",
    "SearchPart",
    "Stats",
    "Store",
    "StoreError",
    "Transient",
    "Unavailable",
    "Waiting",
    "Walk",
    "WorkerCounts",
    "WorkerList",
    "lowered",
    "merged",
    "no_hints",
    "walks_of",
    "wall_clock",
    "without_texts",
]
