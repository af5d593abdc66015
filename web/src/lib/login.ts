// The dashboard's half of a login, in localStorage, which belongs to this origin alone. The other half is a cookie, which a
// browser sends to every port of the machine. Both are needed for a request.

const header = "x-interlock-login";
const fragment = "#login=";
const name = `interlock login ${location.pathname}`;

/** Stores the secret of a login link, which is behind the #, and removes it from the address. A secret without a matching
 *  cookie, such as from a link of another site, does not replace the stored one. */
export async function take_from_address(): Promise<void> {
  if (!location.hash.startsWith(fragment)) return;
  const secret = location.hash.slice(fragment.length);
  history.replaceState(null, "", location.pathname + location.search);
  const response = await fetch("v1/keys/self", { headers: { [header]: secret } }).catch(() => undefined);
  if (response?.status !== 401) keep(secret);
}

export function keep(secret: string): void {
  localStorage.setItem(name, secret);
}

export function forget(): void {
  localStorage.removeItem(name);
}

/** Header of every request. */
export function login_header(): Record<string, string> {
  const secret = localStorage.getItem(name);
  return secret === null ? {} : { [header]: secret };
}
