import { expect, test } from "vitest";
import { isJobId, jobIdOf, offersFor } from "./palette";

const NONE = { accounts: [], tools: [] };

test("without a text all pages are offered, in their order", () => {
  expect(
    offersFor("", NONE)
      .map((offer) => offer.title)
      .slice(0, 3),
  ).toEqual(["Overview", "Jobs", "Dead letters"]);
});

test("an id of a job, with or without hyphens, is offered alone", () => {
  const id = "0191d7fe-3e02-74be-83ee-f9304a0e98de";
  expect(offersFor(` ${id.toUpperCase()} `, NONE)).toMatchObject([{ kind: "job", job: id }]);
  expect(jobIdOf(id.replaceAll("-", ""))).toBe(id);
  expect(isJobId("0191d7fe")).toBe(false);
});

test("pages whose words begin as was typed come before those that contain it, then accounts, then the search", () => {
  const offers = offersFor("a", { accounts: ["ana"], tools: ["upscale"] });
  expect(offers[0]?.title).toBe("Accounts");
  expect(offers.map((offer) => offer.kind)).toContain("account");
  expect(offers.at(-1)).toMatchObject({ kind: "search", search: "a" });
});

test("a tool leads to its jobs, in quotes where its name needs them", () => {
  const offers = offersFor("video", { accounts: [], tools: ["video clip"] });
  expect(offers).toContainEqual(expect.objectContaining({ kind: "search", search: 'tool:"video clip"' }));
});
