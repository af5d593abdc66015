// Login screen.
import { useState } from "preact/hooks";
import { Problem, send } from "./lib/api";
import { keep } from "./lib/login";
import { ErrorMessage } from "./ui/parts";
import { Command } from "./ui/words";

export function Login() {
  const [key, set_key] = useState("");
  const [problem, set_problem] = useState<Problem>();
  const log_in = async (event: Event) => {
    event.preventDefault();
    try {
      const login = await send<{ secret: string }>("POST", "login", { key: key.trim() });
      if (login) keep(login.secret);
      location.reload();
    } catch (error) {
      set_problem(error as Problem);
    }
  };
  return (
    <main class="alone">
      <h1><img src="./icon.svg" alt="" width="28" height="28" /> Interlock</h1>
      <p>Print a login link on the machine of the server:</p>
      <Command text="interlock login" />
      <p>Or log in with an API key:</p>
      <form class="row" onSubmit={log_in}>
        <label class="grow">
          <span class="unseen">API key</span>
          <input type="password" value={key} onInput={(event) => set_key(event.currentTarget.value)} placeholder="ilk_…" autocomplete="current-password" required />
        </label>
        <button class="primary">Log in</button>
      </form>
      <ErrorMessage of={problem} />
      <p class="dim">Create a read-only key: <code>interlock keys create --scope read</code></p>
    </main>
  );
}
