import { beforeEach, expect, test, vi } from "vitest";
import { choose, current, go, link } from "./route";

beforeEach(() => {
  location.hash = "";
});

test("the address names a screen, what is open on it, and what is chosen", () => {
  location.hash = "#/runs/run_1?status=queued&agent=a%20b";

  expect(current().path).toEqual(["runs", "run_1"]);
  expect(current().query.get("agent")).toBe("a b");
});

test("an empty address is the first screen", () => {
  expect(current().path).toEqual([]);
  location.hash = "#/";
  expect(current().path).toEqual([]);
});

test("each name comes back from a link as it was", () => {
  for (const name of ["a/b", "50 %", "?x=1", "#", "<b>", "ü"]) {
    go("budgets", name);
    expect(current().path).toEqual(["budgets", name]);
  }
  expect(link("budgets", "a/b")).toBe("#/budgets/a%2Fb");
});

test("a name that is no encoding of anything is taken as it is", () => {
  location.hash = "#/runs/%zz";

  expect(current().path).toEqual(["runs", "%zz"]);
});

test("choosing changes only what it names, leaves out the empty, and tells the page", () => {
  const listener = vi.fn();
  window.addEventListener("hashchange", listener);
  location.hash = "#/runs?status=queued&agent=a";

  choose({ agent: undefined, name: "x y" });
  expect(current().path).toEqual(["runs"]);
  expect([...current().query]).toEqual([["status", "queued"], ["name", "x y"]]);
  expect(listener).toHaveBeenCalledTimes(1);

  choose({ status: "", name: undefined });
  expect(location.hash).toBe("#/runs");
});
