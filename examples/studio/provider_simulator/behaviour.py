"""How the simulator is told to misbehave: what `POST /control` takes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ProviderName = Literal["replicate", "fal", "runninghub", "plain"]
Verdict = Literal["succeeded", "failed"]
Call = Literal["start", "find", "status", "result", "cancel", "upload", "keys"]
Fault = Literal["close", "500", "429", "404", "html", "redirect", "huge", "garbage", "empty", "given"]
FileFault = Literal["404", "expired", "cut", "500", "html", "huge", "redirect"]


class TaskBehaviour(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What becomes of a task.

    provider: whose tasks; those of every provider if it is not given.
    model: tasks of models that have these letters in their name; of every model if it is not given.
    times: for how many tasks this holds; 0: for all from now on.
    fail: the words with which the task fails.
    crash: whether it is the provider's machine that fails, and not the model. Only fal tells them apart.
    seconds: how long the work takes.
    hold: whether the task works until `POST /control/tasks/{id}/finish`.
    early: whether the task ends, and calls back, before its start is answered.
    lose: whether it does not call back.
    delay: seconds between the end of the work and the call-back.
    duplicate: how many times it calls back, all at once.
    forge: whether the call-back says success, whatever became of the task, and is signed with another's key.
    wrong_token: whether the call-back goes to another address, whose last part is changed.
    verdicts: what the provider says, one after the other, as if it had changed its mind; its status says the same.
    file: what is wrong with the result's address.
    file_times: for how many downloads it is wrong; 0: for all.
    """

    provider: ProviderName | None = None
    model: str | None = None
    times: int = 1
    fail: str | None = None
    crash: bool = False
    seconds: float | None = None
    hold: bool = False
    early: bool = False
    lose: bool = False
    delay: float = 0.0
    duplicate: int = 1
    forge: bool = False
    wrong_token: bool = False
    verdicts: tuple[Verdict, ...] = ()
    file: FileFault | None = None
    file_times: int = 0


class AnswerBehaviour(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a request is answered.

    on: which requests; all but downloads if it is not given.
    times: for how many requests this holds; 0: for all from now on.
    fault: what is answered. `close` closes the connection without a word; `given` answers with what is given.
    status, headers, body: for `given`.
    slow: seconds before the answer.
    retry_after: the header of a 429.
    after: whether what was asked for is done nevertheless, so that only the answer is lost, or slow.
    """

    provider: ProviderName | None = None
    on: Call | None = None
    times: int = 1
    fault: Fault | None = None
    status: int = 200
    headers: dict[str, str] = {}
    body: str = ""
    slow: float = 0.0
    retry_after: str = "1"
    after: bool = False


class Control(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /control`: one of both, or both."""

    task: TaskBehaviour | None = None
    answer: AnswerBehaviour | None = None


class Finish(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /control/tasks/{id}/finish`. fail: the words with which the task fails; None: it succeeds."""

    fail: str | None = None


class ExtraCallback(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /control/tasks/{id}/callback`: a call-back that is sent now, whatever the task does.

    verdict: what it says; what became of the task if it is not given.
    times: how many of them, all at once.
    url: where to, if not to the task's own address.
    age: how many seconds ago its time stamp says that it was signed.
    """

    verdict: Verdict | None = None
    times: int = 1
    forge: bool = False
    wrong_token: bool = False
    url: str | None = None
    age: int = 0


class Plan:
    """What the next tasks and answers will be like, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._tasks: list[list[TaskBehaviour | int]] = []
        self._answers: list[list[AnswerBehaviour | int]] = []

    def add(self, control: Control) -> None:
        for given, kept in ((control.task, self._tasks), (control.answer, self._answers)):
            if given is not None:
                kept.append([given, given.times or -1])
                del kept[:-MOST_PLANNED]

    def clear(self) -> None:
        self._tasks.clear()
        self._answers.clear()

    def task(self, provider: str, model: str) -> TaskBehaviour:
        def fits(one: TaskBehaviour) -> bool:
            return one.provider in (None, provider) and (one.model or "") in model

        return self._take(self._tasks, fits) or TaskBehaviour()

    def answer(self, provider: str, on: str) -> AnswerBehaviour | None:
        return self._take(self._answers, lambda one: one.provider in (None, provider) and one.on in (None, on))

    @staticmethod
    def _take(planned, fits):
        """The first that fits; what has a number is used up before what holds from now on."""
        for entry in sorted(planned, key=lambda entry: entry[1] < 0):
            if fits(entry[0]):
                entry[1] -= entry[1] > 0
                if entry[1] == 0:
                    planned.remove(entry)
                return entry[0]
        return None


MOST_PLANNED = 1_000


class Logged(Struct, frozen=True):
    """One request that the simulator got. Keys and tokens of callers are not kept."""

    at: float
    provider: str
    on: str
    path: str
    key: str | None = None
    task_id: str | None = None
    status: int | None = None
    repeated: bool = False
