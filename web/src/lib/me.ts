// The API key of the login, and its rights.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Key } from "./types";

export type Access = "read" | "act" | "operate" | "administer";

const ranks: Record<string, number> = { read: 1, agent: 2, operator: 3, admin: 4 };
const needed: Record<Access, number> = { read: 1, act: 2, operate: 3, administer: 4 };

export const Me = createContext<Key | undefined>(undefined);

export function may(key: Key | undefined, access: Access): boolean {
  return Math.max(0, ...(key?.scopes ?? []).map((scope) => ranks[scope] ?? 0)) >= needed[access];
}

/** Whether the API key has this right. Buttons without it are shown disabled. */
export function useMay(access: Access): boolean {
  return may(useContext(Me), access);
}
