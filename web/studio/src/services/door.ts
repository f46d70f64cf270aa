// The routes of the demonstration itself: who one can be, what credits cost, what the simulated provider is told.
import { type Ficha, FichaError } from "@ficha/client";

export interface Person {
  account: string;
  plan: string;
  credits: number;
}

export interface Pack {
  credits: number;
  cents: number;
}

export type SampleKind = "person" | "place" | "product" | "garment" | "small" | "clip";

export interface Sample {
  name: string;
  kind: SampleKind;
  media_type: string;
}

export interface Demo {
  people: Person[];
  packs: Pack[];
  cards: { good: string; declined: string };
  samples: Sample[];
  is_simulated: boolean;
}

export interface Payment {
  id: string;
  credits: number;
  cents: number;
  state: "open" | "paid" | "declined";
  detail: string | null;
  balance: number | null;
}

export type NextTask = "fail" | "lose" | "slow";

interface Entered {
  token: string;
  account: string;
  plan: string;
  expires_at: string;
}

async function answered<T>(answer: Response): Promise<T> {
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body as T;
  throw new FichaError(answer.status, { code: `HTTP_${answer.status}`, detail: answer.statusText, ...body });
}

export async function loadDemo(): Promise<Demo> {
  return answered(await fetch("/studio/demo"));
}

async function enter(account: string): Promise<Entered> {
  const body = JSON.stringify({ account });
  const headers = { "Content-Type": "application/json" };
  return answered(await fetch("/studio/enter", { method: "POST", body, headers }));
}

/** How to get a token of the account. Tokens live in this page's memory only, and for minutes; then a new one is asked for. */
export function tokensOf(account: string): () => Promise<string> {
  return async () => (await enter(account)).token;
}

export function buy(client: Ficha, credits: number): Promise<Payment> {
  return client.request<Payment>("POST", "/studio/payments", { credits }) as Promise<Payment>;
}

export function pay(client: Ficha, payment: Payment, card: string): Promise<Payment> {
  return client.request<Payment>("POST", `/studio/payments/${payment.id}/pay`, { card }) as Promise<Payment>;
}

export async function tellProvider(client: Ficha, next: NextTask): Promise<void> {
  await client.request("POST", "/studio/simulator", { next });
}
