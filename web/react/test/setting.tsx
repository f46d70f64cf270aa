import { createFicha, type Ficha, type FichaOptions } from "@ficha/client";
import { act, cleanup, render } from "@testing-library/react";
import { type ReactNode, StrictMode } from "react";
import { afterEach, beforeEach, vi } from "vitest";
import { HostileServer, jobJson, json, message, stream } from "../../client/test/hostileServer";
import { FichaProvider, type Locale } from "../src";

export const EVENTS = "GET /api/jobs/job-1/events";
export const SUBMIT = "POST /api/jobs";

export const ACCOUNT = {
  id: "ana",
  plan: "pro",
  balance: 24,
  limits: { max_running: 2 },
  opened_at: "2026-11-16T10:00:00Z",
};
export const DONE = jobJson({ status: "completed", position: null, waiting_for: null, result: { text: "made" } });
export const WAITS = message("job", jobJson());
export const END = message("end", DONE);

/** A server, a client and a page around what is shown, with StrictMode as React's own tests of effects have it. */
export class Setting {
  server!: HostileServer;
  client!: Ficha;

  constructor(options: FichaOptions = {}) {
    beforeEach(async () => {
      sessionStorage.clear();
      this.server = await HostileServer.start();
      this.server.on("GET /api/account", json(ACCOUNT));
      this.server.on("GET /api/jobs", json({ items: [], next: null }));
      this.server.on("GET /api/queue/check", json({ pools: [{ ready: 12 }] }));
      this.server.on("GET /api/jobs/active", json({ active: false, job: null }));
      this.server.on(EVENTS, stream([WAITS], "open"));
      const times = { retries: [1], backoff: [5, 20] as const, refresh: 1 };
      this.client = createFicha({ url: this.server.url, times, ...options });
    });
    afterEach(async () => {
      cleanup();
      // What lingers a moment ends now.
      if (vi.isFakeTimers()) vi.advanceTimersByTime(1_000);
      vi.useRealTimers();
      vi.restoreAllMocks();
      await this.server.stop();
    });
  }

  show(children: ReactNode, locale: Locale = "en") {
    return render(this.around(children, locale));
  }

  around(children: ReactNode, locale: Locale = "en") {
    return (
      <StrictMode>
        <FichaProvider client={this.client} locale={locale}>
          {children}
        </FichaProvider>
      </StrictMode>
    );
  }
}

/** Lets what is under way arrive, and React show it. */
export async function settled(ms = 20): Promise<void> {
  await act(() => new Promise((resolve) => setTimeout(resolve, ms)));
}
