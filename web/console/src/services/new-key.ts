/** An idempotency key: 128 random bits. `crypto.randomUUID` is missing over plain HTTP, `getRandomValues` is not. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
