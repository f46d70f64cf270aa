/** A message of a stream of server-sent events. */
export interface Message {
  event: string;
  data: string;
  id: string | undefined;
  retry: number | undefined;
}

/** Takes the text of a stream in pieces, cut anywhere, and gives its messages as soon as they are whole. */
export class SseParser {
  #rest = "";
  #isStart = true;
  #data: string[] = [];
  #event = "";
  #id: string | undefined;
  #retry: number | undefined;

  push(text: string): Message[] {
    const found: Message[] = [];
    let whole = this.#rest + text;
    if (this.#isStart && whole) {
      this.#isStart = false;
      if (whole.startsWith("\uFEFF")) whole = whole.slice(1);
    }
    // A CR at the end may be half of a CRLF: it waits for what follows.
    const lines = whole.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") this.#finish(found);
      else this.#field(line);
    }
    return found;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.#retry = Number(value);
  }

  #finish(found: Message[]): void {
    if (this.#data.length) {
      found.push({
        event: this.#event || "message",
        data: this.#data.join("\n"),
        id: this.#id,
        retry: this.#retry,
      });
    }
    this.#data = [];
    this.#event = "";
    this.#id = undefined;
    this.#retry = undefined;
  }
}
