// Uploads a file for an account. XMLHttpRequest, because `fetch` does not tell how much of a body has been sent.
import { addressOf, Problem, type Schemas } from "./api";

export function upload(
  file: File,
  account: string | undefined,
  onProgress: (share: number) => void,
): Promise<Schemas["FileView"]> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", addressOf("/api/uploads", { query: { account, name: file.name, size: file.size } }));
    request.responseType = "text";
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = () =>
      reject(new Problem(0, "UNREACHABLE", "The server does not answer. Choose the file again.", true));
    request.onload = () => {
      let told: { file?: Schemas["FileView"] } & Partial<Schemas["Problem"]> = {};
      try {
        told = JSON.parse(request.responseText);
      } catch {
        // A proxy's page: the status says what is known.
      }
      if (request.status < 300 && told.file) resolve(told.file);
      else {
        const words = told.detail ?? `The server answered ${request.status}.`;
        reject(new Problem(request.status, told.code ?? "", words, told.retryable ?? false));
      }
    };
    const body = new FormData();
    body.append("file", file);
    request.send(body);
  });
}
