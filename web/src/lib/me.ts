// Who is looking, and what their key lets them do.
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

/** Whether the one who looks may do this. What they may not do is shown, and is not to be pressed. */
export function useMay(access: Access): boolean {
  return may(useContext(Me), access);
}
