import { beforeEach, expect, test } from "vitest";
import { json, serve } from "../testing/fake_server";
import { forget, keep, login_header, take_from_address } from "./login";

beforeEach(() => {
  forget();
  location.hash = "";
});

test("the secret goes along with requests until it is forgotten", () => {
  expect(login_header()).toEqual({});
  keep("abc");
  expect(login_header()).toEqual({ "x-interlock-login": "abc" });
  forget();
  expect(login_header()).toEqual({});
});

test("a login link's secret is kept and taken out of the address", async () => {
  const server = serve(() => json({}));
  location.hash = "#login=abc";
  await take_from_address();

  expect(login_header()).toEqual({ "x-interlock-login": "abc" });
  expect(location.href).not.toContain("abc");
  expect(server.inits[0]!.headers).toEqual({ "x-interlock-login": "abc" });
});

test("a secret that fits no cookie does not replace the one that is there", async () => {
  serve(() => json({}, 401));
  keep("mine");
  location.hash = "#login=made-up";
  await take_from_address();

  expect(login_header()).toEqual({ "x-interlock-login": "mine" });
  expect(location.href).not.toContain("made-up");
});

test("a secret that could not be checked is kept", async () => {
  serve(() => {
    throw new TypeError("no network");
  });
  location.hash = "#login=abc";
  await take_from_address();

  expect(login_header()).toEqual({ "x-interlock-login": "abc" });
});

test("any other address is left alone", async () => {
  const server = serve(() => json({}));
  location.hash = "#/runs";
  await take_from_address();

  expect(location.hash).toBe("#/runs");
  expect(server.requests).toEqual([]);
});
