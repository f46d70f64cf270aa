"""Examples of bodies for the OpenAPI document; a test reads each as its body, so that none is wrong."""

from __future__ import annotations

from typing import Any, Final

from ..requests import BatchRequest, Body, SubmitRequest
from . import wire as s

_JOB: Final = "0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10"

EXAMPLES: Final[dict[type[Body], dict[str, Any]]] = {
    SubmitRequest: {"tool": "upscale", "payload": {"image": "cat.png", "scale": 2}, "idempotency_key": "order-1042"},
    BatchRequest: {
        "items": [
            {"tool": "thumbnail", "payload": {"image": "cat.png"}},
            {"tool": "thumbnail", "payload": {"image": "dog.png"}},
        ]
    },
    s.ReasonBody: {"reason": "ordered by mistake"},
    s.RefundBody: {"reason": "the picture was black"},
    s.RunScheduleBody: {"key": "by-hand-1"},
    s.CloseBody: {"reason": "We mend it until noon."},
    s.BulkActBody: {"act": "requeue", "search": "dead:yes tool:upscale since:1h", "reason": "the provider was down"},
    s.PruneBody: {"dry_run": True},
    s.TokenBody: {"ttl_s": 600},
    s.ReserveBody: {"ttl_s": 300},
    s.UploadBody: {"name": "cat.png", "size": 48213, "media_type": "image/png"},
    s.QueueFinishBody: {"job_id": _JOB, "status": "completed", "result": {"image": "cat-2x.png"}},
    s.NextBody: {"worker": "gpu-1", "pool": "gpu", "limit": 1},
    s.ClaimBody: {"worker": "gpu-1", "pools": ["gpu"], "limit": 4, "wait_s": 20},
    s.HeartbeatBody: {"leases": [{"job_id": _JOB, "epoch": 1}]},
    s.CheckpointBody: {"job_id": _JOB, "epoch": 1, "name": "UPSCALING", "progress": 30, "data": {"tile": 7}},
    s.StepBody: {"job_id": _JOB, "epoch": 1, "name": "download", "result": {"bytes": 48213}},
    s.ReportBody: {"job_id": _JOB, "epoch": 1, "progress": 60, "partial": {"images": ["1.png"]}},
    s.LogBody: {"job_id": _JOB, "epoch": 1, "text": "tile 7 of 12"},
    s.WorkerFinishBody: {"job_id": _JOB, "epoch": 1, "outcome": "completed", "result": {"image": "cat-2x.png"}},
    s.OpenAccountBody: {"account": "ana", "plan": "pro", "credits": 100},
    s.CreditBody: {"amount": 50, "reason": "payment 7731", "key": "payment-7731"},
    s.PlanBody: {"plan": "pro"},
    s.OpenBreakerBody: {"seconds": 600, "reason": "maintenance at the provider"},
    s.ResizeBody: {"slots": 5},
    s.WebhookBody: {"url": "https://example.com/hooks", "events": ["job.completed", "job.failed"]},
    s.RotateBody: {"overlap_s": 3600},
    s.SignInBody: {"token": "ficha_admin_…"},
    s.ApiKeyBody: {"name": "web backend", "scope": "service", "ttl_s": 7776000},
}
