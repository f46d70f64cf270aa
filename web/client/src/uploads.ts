// Files on their way to the server. XMLHttpRequest, since fetch does not tell how far an upload is.
import { dated } from "./dates";
import { answeredError, networkError } from "./errors";
import type { Http } from "./http";
import { isOver } from "./reservations";
import type { UploadProgress } from "./states";
import { retrying, type Times } from "./times";
import type { FileInfo } from "./types";

export interface UploadOptions {
  onProgress?: ((progress: UploadProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

interface Answer {
  status: number;
  body: string;
  retryAfter: string | null;
}

/** Files of one account go up side by side, but not all at once: the server takes four. */
const AT_ONCE = 3;

export class Uploads {
  /** What has arrived, by the file it came from, so that a failed submit does not send it again. */
  readonly #arrived = new WeakMap<Blob, FileInfo>();

  constructor(
    readonly http: Http,
    readonly times: Times,
  ) {}

  async upload(
    file: Blob,
    { onProgress, signal }: UploadOptions = {},
    reservation?: string | undefined,
  ): Promise<FileInfo> {
    const told = (sent: number): void =>
      onProgress?.({ sent, total: file.size, share: file.size ? sent / file.size : 1 });
    const send = (under?: string) => retrying(() => this.#send(file, told, signal, under), this.times, signal);
    const info = await send(reservation).catch((error: unknown) => {
      if (!isOver(error)) throw error;
      return send();
    });
    this.#arrived.set(file, info);
    told(file.size);
    return info;
  }

  /** The ids of the files, in their order. Those that have arrived already are not sent again. */
  async all(
    files: readonly Blob[],
    { onProgress, signal }: UploadOptions,
    reservation: string | undefined,
  ): Promise<string[]> {
    const total = sizeOf(files);
    const sent = files.map(() => 0);
    const ids: string[] = [];
    const waiting = files.map((file, index) => ({ file, index }));
    const told = (): void => {
      const sum = sent.reduce((one, other) => one + other, 0);
      onProgress?.({ sent: sum, total, share: total ? sum / total : 1 });
    };
    if (files.length) told();
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const { file, index } = next;
        const onOwn = (own: UploadProgress): void => {
          sent[index] = own.sent;
          told();
        };
        ids[index] = this.known(file) ?? (await this.upload(file, { onProgress: onOwn, signal }, reservation)).id;
        sent[index] = file.size;
        told();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return ids;
  }

  /** The id under which the file arrived, if it did and is still there. */
  known(file: Blob): string | undefined {
    const info = this.#arrived.get(file);
    const isThere = info && (info.expires_at === null || +info.expires_at - this.http.clockAhead > Date.now() + 60_000);
    return isThere ? info.id : undefined;
  }

  forget(files: readonly Blob[]): void {
    for (const file of files) this.#arrived.delete(file);
  }

  async #send(
    file: Blob,
    told: (sent: number) => void,
    signal: AbortSignal | undefined,
    reservation: string | undefined,
  ): Promise<FileInfo> {
    signal?.throwIfAborted();
    const url = this.http.url("/api/uploads", { name: nameOf(file), size: file.size, reservation });
    const token = await this.http.token();
    let answer = await this.#sendOnce(url, file, told, signal, token);
    if (answer.status === 401 && this.http.renew(token)) {
      answer = await this.#sendOnce(url, file, told, signal, await this.http.token());
    }
    if (answer.status !== 201) throw answeredError(answer.status, answer.body, answer.retryAfter);
    return dated((JSON.parse(answer.body) as { file: FileInfo }).file) as FileInfo;
  }

  #sendOnce(
    url: string,
    file: Blob,
    told: (sent: number) => void,
    signal: AbortSignal | undefined,
    token: string | undefined,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const form = new FormData();
      form.append("file", file, nameOf(file));
      const request = new XMLHttpRequest();
      const stop = (): void => request.abort();
      request.open("POST", url);
      if (token) request.setRequestHeader("Authorization", `Bearer ${token}`);
      request.upload.onprogress = ({ loaded, total }) =>
        told(Math.round(file.size * Math.min(1, loaded / (total || 1))));
      request.onload = () =>
        resolve({
          status: request.status,
          body: request.responseText,
          retryAfter: request.getResponseHeader("retry-after"),
        });
      request.onerror = () => reject(networkError(undefined));
      request.onabort = () => reject(signal?.reason ?? networkError(undefined));
      request.onloadend = () => signal?.removeEventListener("abort", stop);
      signal?.addEventListener("abort", stop, { once: true });
      request.send(form);
    });
  }
}

export function sizeOf(files: readonly Blob[]): number {
  return files.reduce((sum, file) => sum + file.size, 0);
}

function nameOf(file: Blob): string {
  return (file instanceof File && file.name) || "file";
}
