import { expect, test } from "vitest";
import { type Access, may } from "./me";
import type { Key } from "./types";

const all: Access[] = ["read", "act", "operate", "administer"];
const allowed = (...scopes: string[]) => all.filter((access) => may({ scopes } as Key, access));

test("each scope includes the ones below it", () => {
  expect(allowed("read")).toEqual(["read"]);
  expect(allowed("agent")).toEqual(["read", "act"]);
  expect(allowed("operator")).toEqual(["read", "act", "operate"]);
  expect(allowed("admin")).toEqual(all);
});

test("of several scopes the highest counts", () => {
  expect(allowed("read", "operator")).toEqual(["read", "act", "operate"]);
});

test("no key, no scope and an unknown scope allow nothing", () => {
  expect(all.filter((access) => may(undefined, access))).toEqual([]);
  expect(allowed()).toEqual([]);
  expect(allowed("constructor")).toEqual([]);
});
