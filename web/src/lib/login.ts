// The page's half of a login. The other half is a cookie, which a browser sends to every port of the machine; what is
// kept here is of this origin alone. Neither opens anything without the other.

const header = "x-interlock-login";
const fragment = "#login=";
const name = `interlock login ${location.pathname}`;

/** A login link ends here with the secret behind the #: it is taken out of the address. One that fits no cookie, from
 *  a link that another site made up, does not replace the one that is there. */
export async function take_from_address(): Promise<void> {
  if (!location.hash.startsWith(fragment)) return;
  const secret = location.hash.slice(fragment.length);
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch("v1/keys/self", { headers: { [header]: secret } }).catch(() => undefined);
  if (answer?.status !== 401) keep(secret);
}

export function keep(secret: string): void {
  localStorage.setItem(name, secret);
}

export function forget(): void {
  localStorage.removeItem(name);
}

/** What goes along with every request. */
export function login_header(): Record<string, string> {
  const secret = localStorage.getItem(name);
  return secret === null ? {} : { [header]: secret };
}
