// Frame of the dashboard: login, navigation, and the state of the connection.
import type { ComponentType } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, Problem, send } from "./lib/api";
import { of_incidents } from "./lib/changes";
import { feed } from "./lib/feed";
import { useKeys } from "./lib/keys";
import { refresh, useConnection, useLive } from "./lib/live";
import { forget } from "./lib/login";
import { Me, may } from "./lib/me";
import { go, link, useRoute } from "./lib/route";
import type { Incident, Key, Page } from "./lib/types";
import { spoken } from "./lib/words";
import { Login } from "./login";
import { Now } from "./screens/now";
import { Dialog, ErrorMessage, Loading, no_right } from "./ui/parts";

interface Screen {
  name: string;
  path: string;
  key: string; // Pressed after g.
  load: () => Promise<ComponentType<{ path: string[]; query: URLSearchParams }>>;
}

const screens: Screen[] = [
  { name: "Now", path: "now", key: "n", load: async () => Now },
  { name: "Runs", path: "runs", key: "r", load: async () => (await import("./screens/runs")).Runs },
  { name: "Budgets", path: "budgets", key: "b", load: async () => (await import("./screens/budgets")).Budgets },
  { name: "Sessions", path: "sessions", key: "s", load: async () => (await import("./screens/sessions")).Sessions },
  { name: "Agents", path: "agents", key: "a", load: async () => (await import("./screens/agents")).Agents },
  { name: "Gateway", path: "gateway", key: "w", load: async () => (await import("./screens/gateway")).Gateway },
  { name: "System", path: "system", key: "y", load: async () => (await import("./screens/system")).System },
];

export function App() {
  const [me, set_me] = useState<Key | null>(); // Null: not logged in.
  const [problem, set_problem] = useState<Problem>();
  const connection = useConnection();
  const log_in = async () => {
    try {
      set_me(await get<Key>("v1/keys/self"));
      set_problem(undefined);
      feed.start();
    } catch (error) {
      if (error instanceof Problem && error.status === 401) set_me(null);
      else if (error instanceof Problem) set_problem(error);
    }
  };
  useEffect(() => void log_in(), []);
  if (me === null || connection === "logged_out") return <Login />;
  if (problem) {
    return (
      <main class="alone">
        <ErrorMessage of={problem} />
        <button type="button" onClick={() => void log_in()}>Try again</button>
      </main>
    );
  }
  if (!me) return null;
  return (
    <Me.Provider value={me}>
      <Frame me={me} />
    </Me.Provider>
  );
}

function Frame({ me }: { me: Key }) {
  const route = useRoute();
  const [help, show_help] = useState(false);
  const screen = screens.find((each) => each.path === (route.path[0] ?? "now"));
  useEffect(() => {
    document.title = `${screen?.name ?? "?"} · Interlock`;
    window.scrollTo(0, 0);
  }, [screen]);
  useKeys(useMemo(() => {
    let g_until = 0; // Not a state, because the next key may come before the next render.
    const jumps = screens.map((each): [string, () => boolean] => [each.key, () => {
      const meant = performance.now() < g_until;
      g_until = 0;
      if (meant) go(each.path);
      return meant;
    }]);
    return {
      ...Object.fromEntries(jumps),
      g: () => { g_until = performance.now() + 1_500; },
      "?": () => show_help(true),
    };
  }, []));
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <aside>
        <a class="brand" href={link("now")}>
          <img src="./icon.svg" alt="" width="22" height="22" />
          Interlock
        </a>
        <nav aria-label="Screens">
          {screens.map((each) => (
            <a key={each.path} href={link(each.path)} aria-current={each === screen ? "page" : undefined} title={`g ${each.key}`}>
              {each.name}
              {each.path === "now" && <Needs />}
            </a>
          ))}
        </nav>
        <footer>
          <Liveness />
          {!may(me, "operate") && <span class="badge wait" title={no_right}>read only</span>}
          <button type="button" class="plain" onClick={() => show_help(true)} aria-label="Keyboard shortcuts">?</button>
          <button type="button" class="plain" onClick={() => void send("POST", "logout").catch(() => undefined).then(forget).then(() => location.reload())}>Log out</button>
        </footer>
      </aside>
      <main id="main" tabIndex={-1}>
        {screen ? <Shown key={screen.path} screen={screen} path={route.path.slice(1)} query={route.query} /> : (
          <p>No screen “{route.path.join("/")}”. Go to <a href={link("now")}>Now</a>.</p>
        )}
      </main>
      {help && <Help close={() => show_help(false)} />}
    </div>
  );
}

function Shown({ screen, path, query }: { screen: Screen; path: string[]; query: URLSearchParams }) {
  const [Body, set] = useState<ComponentType<{ path: string[]; query: URLSearchParams }> | undefined>(
    () => (screen.path === "now" ? Now : undefined));
  const [failed, set_failed] = useState(false);
  useEffect(() => {
    screen.load().then((loaded) => set(() => loaded), () => set_failed(true));
  }, [screen]);
  // After an upgrade of the server, the files of the old dashboard are gone.
  if (failed) return <p class="error">This screen could not be loaded. <a href="./">Reload the dashboard</a>.</p>;
  return Body ? <Body path={path} query={query} /> : <Loading />;
}

/** Number of problems that need attention. */
function Needs() {
  const { data } = useLive<Page<Incident>>("v1/incidents", of_incidents);
  const many = data?.items.filter((each) => each.level !== "note").length ?? 0;
  return many > 0 ? <span class="badge bad" aria-label={`${many} need attention`}>{many}</span> : null;
}

function Liveness() {
  const connection = useConnection();
  return (
    <span class={`state ${connection === "live" ? "good" : "wait"}`} role="status"
      title={connection === "no_feed" ? "your API key does not have the right to follow events; the data does not refresh" : undefined}>
      {connection === "live" ? "live" : connection === "no_feed" ? "not live" : `${spoken(connection)} …`}
    </span>
  );
}

function Help({ close }: { close: () => void }) {
  const keys: [string, string][] = [
    ...screens.map((each): [string, string] => [`g ${each.key}`, each.name]),
    ["j, k", "down and up in a list"],
    ["Enter", "preview a run, then open it"],
    ["Esc", "close a dialog or preview"],
    ["x", "mark a row"],
    ["/", "filter"],
    ["?", "keyboard shortcuts"],
  ];
  return (
    <Dialog title="Keyboard shortcuts" close={close}>
      <dl class="keys">
        {keys.map(([key, what]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={what}>{what}</dd>])}
      </dl>
      <button type="button" onClick={() => refresh("")}>Refresh all data</button>
    </Dialog>
  );
}
