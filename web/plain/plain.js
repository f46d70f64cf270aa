// A page that uses @ficha/client alone. Everything that a server or a user wrote becomes text, never HTML.
import { createFicha } from "../client/dist/index.js";
import { attend, describe, shownIn, visitSession, WORDS } from "../react/dist/plain.js";

const words = WORDS.en;
const session = visitSession();
const part = (id) => document.getElementById(id);

let ficha;
let tools = [];
let account = null;
let following = null;
let ticking;
let lastKind = "";
let endVisit = () => {};

part("server").value = new URLSearchParams(location.search).get("server") ?? "";

part("connect").addEventListener("submit", async (event) => {
  event.preventDefault();
  // The token stays in memory: a script of another page cannot read it there.
  ficha = createFicha({ url: part("server").value, token: part("token").value || undefined });
  try {
    [tools, account] = await Promise.all([ficha.tools(), ficha.balance()]);
  } catch (error) {
    return complain(error);
  }
  complain(null);
  endVisit();
  endVisit = attend(ficha.session(session));
  part("tool").replaceChildren(...tools.map(({ name }) => new Option(name, name)));
  part("work").hidden = false;
  showBalance();
  chooseTool();
  const active = await ficha.checkActiveJob();
  if (active) follow(active.id);
});

part("tool").addEventListener("change", chooseTool);
part("payload").addEventListener("change", showPrice);

part("work").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = part("generate");
  if (button.ariaDisabled === "true") return;
  button.ariaDisabled = "true";
  try {
    const upload = (told) => show({ phase: "uploading", job: null, connection: "live", problem: null, upload: told });
    upload({ sent: 0, total: 0, share: 1 });
    const handle = await ficha.submit(part("tool").value, payload(), { session, onUpload: upload });
    complain(null);
    account = { ...account, balance: handle.receipt.new_balance };
    showBalance();
    follow(handle.id);
  } catch (error) {
    complain(error);
  } finally {
    button.ariaDisabled = "false";
  }
});

part("cancel").addEventListener("click", () => following && ficha.cancelJob(following.id).catch(complain));

function follow(id) {
  following?.close();
  following = ficha.subscribeToJob(id, show);
  following.done.then(async () => {
    account = await ficha.balance();
    showBalance();
    show(following.state);
  }, complain);
}

function show(state) {
  clearInterval(ticking);
  const told = describe(state, {
    words,
    now: Date.now(),
    balance: state.phase === "failed" ? account?.balance : null,
    atOnce: account?.limits?.max_running ?? null,
    making: words.making,
  });
  part("job").dataset.tone = told.tone;
  part("words").textContent = told.text;
  part("note").textContent = told.note ?? "";
  part("cancel").hidden = !told.canCancel || !state.job;
  showBar(told.bar);
  // Spoken when it is another kind of news, not whenever a number changes.
  if (told.kind !== lastKind) part("spoken").textContent = told.spoken;
  lastKind = told.kind;
  if (state.phase === "running") ticking = setInterval(() => show(state), 1_000);
  showResults(state.phase === "done" ? state.job.result : state.phase === "running" ? state.partial : null);
}

function showBar(value) {
  const bar = part("bar");
  bar.hidden = value === undefined;
  bar.toggleAttribute("data-unknown", value === null);
  if (typeof value === "number") bar.setAttribute("aria-valuenow", String(value));
  else bar.removeAttribute("aria-valuenow");
  bar.firstElementChild.style.inlineSize = typeof value === "number" ? `${value}%` : "";
}

/** Adds what is new; what is shown already stays. */
function showResults(value) {
  const list = part("results");
  const found = shownIn(value);
  for (const item of [...list.children]) if (!found.some(({ key }) => key === item.dataset.key)) item.remove();
  for (const [index, one] of found.entries()) {
    if ([...list.children].some((item) => item.dataset.key === one.key)) continue;
    const item = document.createElement("li");
    item.className = "ficha-result";
    item.dataset.key = one.key;
    list.append(item);
    if (one.kind === "data") item.append(picture(one.url, index));
    else ficha.fileUrl(one.file).then((url) => item.append(fileShown(one, url, index)), complain);
  }
}

function picture(url, index) {
  const image = new Image();
  image.src = url;
  image.alt = words.result(index + 1);
  return image;
}

function fileShown({ mediaType, name }, url, index) {
  if (mediaType.startsWith("image/")) return picture(url, index);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.textContent = words.download(name);
  return link;
}

function chooseTool() {
  const tool = tools.find(({ name }) => name === part("tool").value);
  if (!tool) return;
  const fields = Object.entries(tool.schema.properties ?? {});
  part("about").textContent = tool.description ?? "";
  const isFile = ([, schema]) => schema.format === "ficha-file";
  const defaults = fields.filter((field) => !isFile(field) && field[1].default != null);
  part("payload").value = JSON.stringify(
    Object.fromEntries(defaults.map(([name, schema]) => [name, schema.default])),
    null,
    2,
  );
  part("files").replaceChildren(
    ...fields.filter(isFile).map(([name]) => {
      const label = document.createElement("label");
      const input = Object.assign(document.createElement("input"), { type: "file", name });
      input.addEventListener("change", showPrice);
      label.append(name, input);
      return label;
    }),
  );
  showPrice();
}

/** What is written, and the files that were picked. The client uploads them. */
function payload(missing) {
  const whole = JSON.parse(part("payload").value || "{}");
  for (const input of part("files").querySelectorAll("input")) {
    const file = input.files[0] ?? missing;
    if (file) whole[input.name] = file;
  }
  return whole;
}

async function showPrice() {
  try {
    // A price needs no file: an empty one stands for what is not picked yet, and nothing is uploaded.
    const quote = await ficha.quote(part("tool").value, payload(new Blob()));
    part("generate").textContent = words.generate(quote.cost);
  } catch {
    part("generate").textContent = words.generate(null);
  }
}

function showBalance() {
  part("balance").textContent = `${account.id}, ${account.plan}: ${words.credits(account.balance)}`;
}

function complain(error) {
  const text = error === null ? "" : "code" in error && "members" in error ? words.refused(error) : String(error);
  part("problem").textContent = text;
}
