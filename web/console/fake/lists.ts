// What the fake server answers on the pages of lists: dead letters, batches, accounts, pools and the rest.
import type { Schemas } from "../src/services/api";
import type { BulkAct, DeadGroup } from "../src/services/shapes";
import { allJobs, PLANS } from "./data.ts";

const ago = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString();
const id = (number: number): string => `0190cccc-0000-7000-8000-${String(number).padStart(12, "0")}`;

const pools: Schemas["PoolView"][] = [
  { name: "gpu", slots: 3, busy: 3, ready: 11, parked: 4, paused: false, paused_tools: ["embed"] },
  { name: "api", slots: 20, busy: 6, ready: 0, parked: 1, paused: false, paused_tools: ["embed"] },
  { name: "cpu", slots: null, busy: 2, ready: 0, parked: 0, paused: true, paused_tools: ["embed"] },
];

let brakes: Schemas["BrakeView"][] = [
  { kind: "pool", name: "api", paused: false, closed: "The provider is down, until about noon.", since: ago(340) },
  { kind: "tool", name: "embed", paused: true, closed: "It is being mended.", since: ago(7_900) },
];

/** One act on a tool or a pool: pause, resume, close or open. */
function brake(kind: "tool" | "pool", name: string, act: string, reason: string): Schemas["BrakeView"] {
  const known = brakes.find((each) => each.kind === kind && each.name === name);
  const made = { kind, name, paused: false, closed: null, ...known, since: ago(0) };
  if (act === "pause" || act === "resume") made.paused = act === "pause";
  else made.closed = act === "close" ? reason : null;
  brakes = [...brakes.filter((each) => each !== known), ...(made.paused || made.closed ? [made] : [])];
  for (const pool of pools) {
    pool.paused_tools = brakes.filter((each) => each.kind === "tool" && each.paused).map((each) => each.name);
  }
  return made;
}

const providers: Schemas["ProviderView"][] = [
  {
    name: "fal",
    breaker: "closed",
    failures: 0,
    trips: 0,
    down_since: null,
    down_until: null,
    error: null,
    turns: 4,
    wait_s: 0,
    rate: "60/m",
    at_once: 8,
  },
  {
    name: "flux",
    breaker: "open",
    failures: 7,
    trips: 2,
    down_since: ago(312),
    down_until: ago(-48),
    error: "ConnectionError: the provider closed the connection after 30 s without an answer",
    turns: 0,
    wait_s: 0,
    rate: null,
    at_once: null,
  },
  {
    name: "replicate",
    breaker: "probing",
    failures: 3,
    trips: 1,
    down_since: ago(90),
    down_until: null,
    error: "503 from the provider",
    turns: 1,
    wait_s: 4.2,
    rate: "600/h",
    at_once: null,
  },
];

const worker = (name: string, more: Partial<Schemas["WorkerView"]>): Schemas["WorkerView"] => ({
  name,
  state: "alive",
  host: name.split(".")[0] ?? name,
  pid: 4120,
  pools: ["gpu", "cpu"],
  concurrency: 4,
  version: "0.1.0",
  started_at: ago(86_400),
  seen_at: ago(3),
  stopped_at: null,
  problem: null,
  running: 2,
  stuck: 0,
  claimed: 18_204,
  completed: 17_310,
  failed: 402,
  cancelled: 88,
  retried: 390,
  recovered: 4,
  returned: 8,
  accepted: 0,
  average_duration_s: 12.4,
  ...more,
});

const workers = [
  worker("gpu-1.worker", {}),
  worker("gpu-2.worker", {
    running: 4,
    claimed: 9_120,
    completed: 8_900,
    failed: 100,
    retried: 60,
    cancelled: 56,
    average_duration_s: 9.81,
  }),
  worker("gpu-3.worker", { state: "silent", seen_at: ago(251), running: 1, stuck: 1, recovered: 12 }),
  worker("api-1.worker", {
    pools: ["api"],
    concurrency: 20,
    accepted: 5_000,
    completed: 10,
    problem: "tool portrait could not be set up: FLUX_KEY is not set",
  }),
  worker("old.worker", { state: "stopped", seen_at: ago(200_000), stopped_at: ago(199_990), running: 0 }),
  worker("lambda-7f3", {
    state: null,
    host: null,
    pid: null,
    pools: null,
    concurrency: null,
    seen_at: null,
    running: 0,
    claimed: 14,
    completed: 14,
    failed: 0,
    retried: 0,
    cancelled: 0,
    recovered: 0,
    returned: 0,
  }),
];

const account = (name: string, index: number): Schemas["AccountAnswer"] => ({
  id: name,
  plan: PLANS[index % PLANS.length] ?? "free",
  balance: [96, 1204, 0, 88_120, 15, 640, 5, 31][index % 8] ?? 10,
  active: index % 4,
  admitted: index % 4,
  parked: index % 2,
  submitted: 40 + index * 131,
  submits_this_hour: index === 0 ? 46 : index,
  spent_today: 40 + index * 3,
  spent_this_month: 400 + index * 30,
  active_job: index % 4 ? id(index) : null,
  opened_at: ago(86_400 * (index + 2)),
  files: 12,
  storage_bytes: 482_113_000,
  limits: {
    max_running: 2,
    max_active: 4,
    per_hour: 50,
    daily_limit: 50,
    monthly_limit: null,
    file_bytes: 20_000_000,
    max_files: 100,
    storage_bytes: 1_000_000_000,
  },
});

const accounts = ["ana", "bruno", "carla", "davi", "elisa", "fabio", "<script>alert(1)</script>", "studio-nine"].map(
  account,
);

const entries: Schemas["EntryView"][] = Array.from({ length: 34 }, (_, index) => ({
  number: 812 - index,
  kind: (["charge", "charge", "refund", "grant", "adjust"] as const)[index % 5] ?? "charge",
  amount: [-4, -8, 8, 500, -20][index % 5] ?? 0,
  balance_after: 96 + index,
  job_id: index % 5 < 3 ? id(index) : null,
  reason:
    ["upscale", "portrait", "the provider timed out after 60 s", "invoice 2026-118", "paid twice, <b>corrected</b>"][
      index % 5
    ] ?? null,
  at: ago(60 + index * 1700),
}));

const tools: Schemas["ToolView"][] = [
  tool("upscale", "Makes a picture two or four times as large.", 4, {
    type: "object",
    required: ["image"],
    properties: {
      image: { type: "string", format: "ficha-file", title: "Image", description: "The picture, at most 20 MB." },
      scale: { type: "integer", enum: [2, 4], default: 2, title: "Scale" },
    },
  }),
  tool("portrait", "Portraits of one person in several scenes.", null, {
    type: "object",
    required: ["prompt", "scenes", "camera"],
    $defs: {
      Camera: {
        type: "object",
        title: "Camera",
        description: "How it is taken.",
        required: ["lens"],
        properties: {
          lens: { type: "number", title: "Lens", minimum: 8, maximum: 600, default: 50 },
          flash: { type: "boolean", title: "Flash", default: false },
        },
      },
    },
    properties: {
      prompt: { type: "string", title: "Prompt", minLength: 1, maxLength: 500, description: "What the pictures show." },
      scenes: { type: "array", title: "Scenes", minItems: 1, maxItems: 4, items: { type: "string" } },
      quality: { type: "string", enum: ["standard", "high"], default: "standard", title: "Quality" },
      camera: { $ref: "#/$defs/Camera" },
      seed: { anyOf: [{ type: "integer" }, { type: "null" }], title: "Seed", default: null },
      extra: { title: "Extra", description: "Anything, as JSON." },
    },
  }),
  tool("embed", null, 1, { type: "object", properties: {} }),
];

function tool(name: string, description: string | null, price: number | null, schema: object): Schemas["ToolView"] {
  return {
    name,
    description,
    pool: name === "embed" ? "cpu" : "gpu",
    schema: schema as Record<string, never>,
    price,
    timeout_s: 600,
    max_wait_s: null,
    attempts: 3,
    max_items: null,
    dedupe: false,
    audience: name === "embed" ? "service" : "user",
    plans: name === "portrait" ? ["pro", "team"] : null,
    paused: name === "embed",
    closed: name === "embed" ? "It is being mended." : null,
  };
}

const batches: Schemas["BatchView"][] = [
  {
    id: id(900),
    account: "ana",
    total: 240,
    by_status: { completed: 120, running: 3, starting: 1, queued: 110, failed: 4, cancelled: 2 },
    by_checkpoint: null,
    progress: 52.5,
    created_at: ago(340),
  },
  {
    id: id(901),
    account: "studio-nine",
    total: 12,
    by_status: { completed: 12 },
    by_checkpoint: null,
    progress: 100,
    created_at: ago(7200),
  },
  {
    id: id(902),
    account: "bruno",
    total: 1000,
    by_status: { completed: 940, failed: 60 },
    by_checkpoint: null,
    progress: 100,
    created_at: ago(90_000),
  },
];

const webhooks: Schemas["WebhookView"][] = [
  {
    id: id(700),
    account: null,
    url: "https://shop.example/hooks/ficha",
    events: ["job.completed", "job.failed"],
    description: "the shop's back end",
    created_at: ago(900_000),
    failing_since_at: null,
    disabled_at: null,
    disabled_reason: null,
  },
  {
    id: id(701),
    account: null,
    url: "https://old.example/in",
    events: [],
    description: "",
    created_at: ago(2_000_000),
    failing_since_at: ago(4000),
    disabled_at: null,
    disabled_reason: null,
  },
  {
    id: id(702),
    account: null,
    url: "https://gone.example/a/rather/long/path/that/does/not/end/soon?with=a&query=too",
    events: ["credits.low"],
    description: "",
    created_at: ago(3_000_000),
    failing_since_at: ago(400_000),
    disabled_at: ago(100_000),
    disabled_reason: "nothing could be delivered for 3 days",
  },
];

const deliveries: Schemas["DeliveryView"][] = Array.from({ length: 24 }, (_, index) => {
  const state = (["delivered", "delivered", "failed", "pending"] as const)[index % 4] ?? "delivered";
  return {
    id: id(600 + index),
    webhook: id(700 + (index % 3)),
    account: index % 5 === 0 ? null : "ana",
    event: index % 2 ? "job.completed" : "job.failed",
    job_id: id(index),
    state,
    attempts: state === "failed" ? 8 : 1,
    answered: state === "failed" ? 502 : state === "delivered" ? 204 : null,
    error: state === "failed" ? "502 Bad Gateway" : null,
    created_at: ago(30 + index * 61),
    next_at: state === "pending" ? ago(-40) : null,
    ended_at: state === "pending" ? null : ago(20 + index * 60),
    body: "{}",
  };
});

const key = (name: string, number: number, more: Partial<Schemas["ApiKeyView"]>): Schemas["ApiKeyView"] => ({
  id: id(500 + number),
  name,
  hint: "ficha_admin_OUFTpW",
  scope: "admin",
  account: null,
  state: "live",
  created_at: ago(864_000),
  expires_at: ago(-600_000),
  revoked_at: null,
  last_used_at: ago(40),
  ...more,
});

const keys = [
  key("ops laptop", 0, {}),
  key("wall screen", 1, { scope: "viewer", hint: "ficha_viewer_a8Kd" }),
  key("shop back end", 2, { scope: "service", hint: "ficha_service_k2", expires_at: null }),
  key("ana's script", 3, { scope: "user", account: "ana", hint: "ficha_user_Z1", last_used_at: null }),
  key("old", 4, { state: "expired", expires_at: ago(4000) }),
  key("leaked", 5, { state: "revoked", revoked_at: ago(90_000) }),
];

const audit: Schemas["AuditView"][] = Array.from({ length: 40 }, (_, index) => ({
  number: 140 - index,
  at: ago(20 + index * 400),
  actor: index % 3 ? "key ficha_admin_OUFTpW" : "token of ana",
  act: ["pause_pool", "grant", "requeue", "create_api_key", "change_plan"][index % 5] ?? "grant",
  target: ["pool cpu", "account ana", `job ${id(index)}`, `API key ${id(503)}`, "account bruno"][index % 5] ?? "",
  details: ([
    {},
    { amount: 500, reason: "invoice 2026-118" },
    { new_job: id(index + 1) },
    { name: "ana's script", scope: "user" },
    { from: "free", to: { plan: "pro", since: "now" } },
  ][index % 5] ?? {}) as Record<string, never>,
}));

/** Reads and acts of these pages; null where another part of the fake server answers. */
export async function answerList(
  request: Request,
  isEmpty: boolean,
  bulkActs: BulkAct[],
): Promise<{ body: unknown; status?: number } | null> {
  const url = new URL(request.url);
  const path = decodeURIComponent(url.pathname);
  const isRead = request.method === "GET";
  const some = <Item>(items: Item[]): Item[] => (isEmpty ? [] : items);
  const page = <Item>(items: Item[]) => {
    const begin = Number(url.searchParams.get("cursor") ?? 0);
    const limit = Math.min(Number(url.searchParams.get("limit") ?? 50), 20);
    const all = some(items);
    return { items: all.slice(begin, begin + limit), next: begin + limit < all.length ? String(begin + limit) : null };
  };
  const named = (prefix: string): string | undefined =>
    path.startsWith(prefix) && path !== prefix ? path.slice(prefix.length) : undefined;

  if (path === "/api/admin/dead/groups") return { body: { items: some(deadGroups()), is_whole: true } };
  const bulk = named("/api/admin/bulk-acts/");
  if (bulk !== undefined) {
    const act = bulkActs.find((one) => bulk.startsWith(one.id));
    if (!act) return null;
    if (bulk.endsWith("/stop")) Object.assign(act, { state: "stopped", ended_at: ago(0) });
    else advance(act);
    return { body: act };
  }
  if (path === "/api/batches" && isRead) {
    const of = url.searchParams.get("account");
    return { body: page(batches.filter((batch) => of === null || batch.account === of)) };
  }
  const batch = named("/api/batches/");
  if (batch !== undefined) {
    if (batch.endsWith("/resume"))
      return {
        body: { resumed: 58, refused: 2, refusal: { code: "INSUFFICIENT_CREDITS", message: "bruno has 0 credits" } },
      };
    if (batch.endsWith("/cancel")) return { body: { cancelled: 114 } };
    const found = batches.find((one) => one.id === batch);
    return found ? { body: found } : null;
  }
  if (path === "/api/jobs" && isRead) return { body: page(allJobs(Date.now()).slice(0, 80)) };
  if (path === "/api/jobs") {
    const job = allJobs(Date.now())[0];
    return { body: { job_id: job?.id, status: "queued", cost: 4, new_balance: 92, jobs: 1 }, status: 201 };
  }
  if (path === "/api/quote") return quote(request);
  if (path === "/api/uploads")
    return { body: { file: { id: id(77), name: url.searchParams.get("name") ?? "file" } }, status: 201 };
  if (path === "/api/admin/accounts" && isRead) {
    const prefix = url.searchParams.get("search") ?? "";
    return { body: page(accounts.filter((one) => one.id.startsWith(prefix))) };
  }
  if (path === "/api/admin/accounts") return { body: { ...accounts[0], ...(await request.json()) }, status: 201 };
  const one = named("/api/admin/accounts/");
  if (one !== undefined) {
    const found = accounts.find((each) => one === each.id || one.startsWith(`${each.id}/`));
    if (!found) return null;
    if (one.endsWith("/ledger")) return { body: page(entries) };
    if (isRead) return { body: found };
    const asked = (await request.json()) as { amount?: number; plan?: string };
    found.balance += asked.amount ?? 0;
    found.plan = asked.plan ?? found.plan;
    return { body: { account: found.id, plan: found.plan, balance: found.balance, entry: 900, idempotent_hit: false } };
  }
  if (path === "/api/files") return { body: page(files) };
  if (path === "/api/admin/plans") return { body: { items: PLANS.map((name) => ({ name, priority: 10 })) } };
  if (path === "/api/admin/pools") return { body: { items: pools } };
  const pool = named("/api/admin/pools/");
  if (pool !== undefined) {
    const [name, act] = pool.split("/");
    const found = pools.find((each) => each.name === name);
    if (!found) return null;
    if (act === "close" || act === "open") {
      const asked = (await request.json().catch(() => ({}))) as { reason?: string };
      return { body: brake("pool", found.name, act, asked.reason ?? "") };
    }
    if (act === "resize") found.slots = ((await request.json()) as { slots: number | null }).slots;
    else found.paused = act === "pause";
    return { body: found };
  }
  if (path === "/api/admin/brakes") return { body: { items: some(brakes) } };
  const braked = named("/api/admin/tools/");
  if (braked !== undefined) {
    const [name = "", act = ""] = braked.split("/");
    const asked = (await request.json().catch(() => ({}))) as { reason?: string };
    return { body: brake("tool", name, act, asked.reason ?? "") };
  }
  if (path === "/api/admin/providers") return { body: { items: some(providers) } };
  const provider = named("/api/admin/providers/");
  if (provider !== undefined) {
    const found = providers.find((each) => provider.startsWith(each.name));
    if (found) found.breaker = provider.endsWith("/open") ? "open" : "closed";
    return { body: found };
  }
  if (path === "/api/admin/margins") return { body: { items: some(margins) } };
  if (path === "/api/admin/workers") return { body: page(workers) };
  if (path === "/api/tools") return { body: { items: some(tools) } };
  if (path === "/api/webhook-endpoints" && isRead) return { body: { items: some(webhooks) } };
  if (path === "/api/webhook-deliveries") {
    const state = url.searchParams.get("state");
    return { body: page(deliveries.filter((each) => state === null || each.state === state)) };
  }
  if (path.startsWith("/api/webhook-"))
    return { body: { secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", webhook: webhooks[0] } };
  if (path === "/api/admin/api-keys" && isRead) return { body: page(keys) };
  if (path.startsWith("/api/admin/api-keys")) {
    const secret = "ficha_service_3q2-7wXkQm1oT5rZb9cVfLhYdNpAsEjG";
    return { body: { secret, key: { ...keys[2], ...(await request.json().catch(() => ({}))) } } };
  }
  if (path === "/api/admin/audit") {
    const [actor, target] = [url.searchParams.get("actor"), url.searchParams.get("target")];
    const found = audit.filter((line) => (!actor || line.actor === actor) && (!target || line.target === target));
    return { body: page(found) };
  }
  return null;
}

function deadGroups(): DeadGroup[] {
  const groups = new Map<string, DeadGroup>();
  for (const job of allJobs(Date.now()).filter((one) => one.is_dead_letter)) {
    const error = (job.error ?? "").replace(/\d[\d.]*/g, "…");
    const name = `${job.tool} ${error}`;
    const at = job.finished_at ?? job.created_at;
    const known = groups.get(name) ?? {
      error,
      tool: job.tool,
      count: 0,
      credits: 0,
      first_at: at,
      last_at: at,
      job_id: job.id,
    };
    known.count += 1;
    known.credits += job.cost;
    if (at < known.first_at) known.first_at = at;
    if (at > known.last_at) known.last_at = at;
    groups.set(name, known);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** A bulk act does ten jobs each second. */
function advance(act: BulkAct): void {
  if (act.state !== "running") return;
  const ended = Math.min(act.total, Math.floor((Date.now() - Date.parse(act.started_at)) / 100));
  act.failed = Math.floor(ended / 20);
  act.done = ended - act.failed;
  act.credits = act.done * 4;
  act.failures = Array.from({ length: Math.min(100, act.failed) }, (_, index) => ({
    job_id: id(index),
    code: "INSUFFICIENT_CREDITS",
    text: "carla has 0 credits and this costs 4; nothing was changed.",
  }));
  if (ended === act.total) Object.assign(act, { state: "done", ended_at: ago(0) });
}

async function quote(request: Request): Promise<{ body: unknown; status?: number }> {
  const asked = (await request.json()) as { payload: { scale?: number; quality?: string }; account: string };
  const cost = 4 * (asked.payload.scale ?? 2);
  const isRich = asked.account !== "carla";
  return {
    body: {
      admitted: isRich,
      cost,
      jobs: 1,
      priority: 10,
      position: 3,
      estimated_wait_s: 40,
      balance: 96,
      new_balance: isRich ? 96 - cost : null,
      refusal: isRich
        ? null
        : {
            code: "INSUFFICIENT_CREDITS",
            message: `carla has 0 credits and this costs ${cost}.`,
            retry_after_s: null,
            details: {},
          },
      quota_warnings: isRich ? ["46 of 50 submits of this hour are used"] : [],
      cost_limit_warning: null,
    },
  };
}

const files: Schemas["FileView"][] = [
  "cat.png",
  "cat-large.png",
  "a clip with a rather long name that somebody gave it.mp4",
].map((name, index) => ({
  id: id(40 + index),
  account: "ana",
  name,
  state: index === 2 ? "uploading" : "stored",
  role: index === 1 ? "result" : "input",
  media_type: index === 2 ? "video/mp4" : "image/png",
  size: 482_113 * (index + 1) ** 3,
  digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  job: index === 1 ? id(2) : null,
  uses: 1,
  reservation: null,
  created_at: ago(4000 * (index + 1)),
  expires_at: index === 0 ? ago(-600_000) : null,
}));

const margins: Schemas["MarginView"][] = [
  { day: "2026-11-15", tool: "portrait", plan: "pro", jobs: 1200, credits: 9600, provider_cost: 37.44 },
  { day: "2026-11-15", tool: "video", plan: "pro", jobs: 40, credits: 1600, provider_cost: 22.1 },
  { day: "2026-11-14", tool: "portrait", plan: "free", jobs: 300, credits: 2400, provider_cost: 9.36 },
];
