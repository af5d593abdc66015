// API keys. The secret of a key is in the response that creates it, and nowhere else.
import { useContext, useState } from "preact/hooks";
import { send } from "../lib/api";
import { refresh, useLive } from "../lib/live";
import { may, Me } from "../lib/me";
import { choose, link } from "../lib/route";
import type { Agent, Budget, Key, Page } from "../lib/types";
import { count, shell_command } from "../lib/words";
import { More, ReadError, useList } from "../ui/list";
import { Action, Dialog, Empty, Section, Table, Loading } from "../ui/parts";
import { Ago, Badge, Command, Id, State } from "../ui/words";

const keys_change = ["key_created", "key_revoked"];
const nothing: string[] = [];

export function Keys({ query }: { query: URLSearchParams }) {
  const me = useContext(Me);
  if (may(me, "administer")) return <AllKeys query={query} />;
  return (
    <Section title="API keys" aside={<Command text="interlock keys show self" />}>
      <p class="dim">Only an admin key can list API keys. Yours is <code>{me?.id}</code>{me?.note && ` (${me.note})`}.</p>
    </Section>
  );
}

function AllKeys({ query }: { query: URLSearchParams }) {
  const keys = useList<Key>("v1/keys", keys_change, 200);
  const [making, make] = useState(false);
  const { data, problem } = keys;
  const all = query.get("keys") === "all";
  // Keys of runs are many and end with their run, so they are hidden like revoked ones.
  const rows = data?.items.filter((key) => all || !(key.revoked_at || key.run)) ?? [];
  const others = data?.items.filter((key) => key.revoked_at || key.run).length ?? 0;
  return (
    <Section title="API keys" aside={
      <div class="row">
        <button type="button" onClick={() => make(true)}>Create API key</button>
        <Command text="interlock keys ls" />
      </div>
    }>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data && rows.length === 0 && <Empty command="interlock keys create --scope read">No API keys. Create one:</Empty>}
      {rows.length > 0 && (
        <Table label="All API keys" rows={rows} id={(key) => key.id}
          columns={[
            { title: "key", of: (key) => <code>{key.id}</code> },
            { title: "scopes", of: (key) => <span class="row">{key.scopes.map((scope) => <Badge key={scope} title={scopes[scope]}>{scope}</Badge>)}</span> },
            { title: "bound to", of: (key) => <Bound of={key} /> },
            { title: "note", of: (key) => key.note, wide: true },
            { title: "created", of: (key) => <Ago at={key.created_at} />, wide: true },
            { title: "actions", untitled: true, of: (key) => (
              <div class="buttons">{key.revoked_at ? <State of="revoked" title={key.revoked_at} /> : <Revoke of={key} />}</div>
            ) },
          ]} />
      )}
      {others > 0 && (
        <div>
          <button type="button" class="plain" onClick={() => choose({ keys: all ? undefined : "all" })}>
            {all ? "Hide" : "Show"} {count(others)} revoked keys and keys of runs
          </button>
        </div>
      )}
      <More of={keys} command="interlock keys ls" />
      {making && <NewKey close={() => make(false)} />}
    </Section>
  );
}

const scopes: Record<string, string> = {
  read: "read everything",
  agent: "run, hold, charge and append messages",
  operator: "everything except API keys and backups",
  admin: "everything",
};

function Bound({ of }: { of: Key }) {
  if (!of.agent && !of.run && !of.budget) return <span class="dim">–</span>;
  return (
    <>
      {of.agent && <>agent <a href={`${link("agents")}?agent=${encodeURIComponent(of.agent)}`}>{of.agent}</a> </>}
      {of.run && <>run <Id of={of.run} /> </>}
      {of.budget && <>budget <a href={link("budgets", of.budget)}>{of.budget}</a></>}
    </>
  );
}

function Revoke({ of }: { of: Key }) {
  const mine = useContext(Me)?.id === of.id;
  return (
    <>
      {mine && <Badge title="you are logged in with it">yours</Badge>}
      <Action needs="administer" danger act={async () => { await send("DELETE", `v1/keys/${encodeURIComponent(of.id)}`); refresh("v1/keys?"); }}
        confirm={
          <>
            <code>{of.id}</code>{of.note && ` (${of.note})`} stops working at once, for good.
            {mine && " You are logged in with this key, so this logs you out."}
          </>
        }>
        Revoke key
      </Action>
    </>
  );
}

function NewKey({ close }: { close: () => void }) {
  const agents = useLive<Page<Agent>>("v1/agents?limit=1000", nothing);
  const budgets = useLive<Page<Budget>>("v1/budgets?limit=500", nothing);
  const [said, say] = useState({ scope: "read", agent: "", budget: "", note: "" });
  const [secret, set_secret] = useState<string>();
  const set = (part: Partial<typeof said>) => say({ ...said, ...part });
  if (secret !== undefined) {
    return (
      <Dialog title="New API key" close={close}>
        <p>The key is shown only once. Its scope: {said.scope} ({scopes[said.scope]}).</p>
        <Command text={secret} />
        <div class="row end"><button type="button" class="primary" onClick={close}>Done</button></div>
      </Dialog>
    );
  }
  const flags: [string, string][] = [["--agent", said.agent], ["--budget", said.budget], ["--note", said.note]];
  return (
    <Dialog title="Create API key" close={close}>
      <label>
        Scope
        <select value={said.scope} onChange={(event) => set({ scope: event.currentTarget.value })}>
          {Object.entries(scopes).map(([scope, words]) => <option key={scope} value={scope}>{scope}: {words}</option>)}
        </select>
      </label>
      <Choice words="Agent" names={agents.data?.items.map((agent) => agent.name)} value={said.agent} set={(agent) => set({ agent })} />
      <Choice words="Budget" names={budgets.data?.items.map((budget) => budget.name)} value={said.budget} set={(budget) => set({ budget })} />
      <label>
        Note
        <input value={said.note} onInput={(event) => set({ note: event.currentTarget.value })} placeholder="for the build server" maxLength={200} />
      </label>
      <Command text={shell_command("interlock", "keys", "create", "--scope", said.scope, ...flags.flatMap(([flag, value]) => (value ? [flag, value] : [])))} />
      <div class="row end">
        <button type="button" onClick={close}>Back</button>
        <Action needs="administer" act={async () => {
          const made = await send<{ key: string | null }>("POST", "v1/keys", { scopes: [said.scope], agent: said.agent, budget: said.budget, note: said.note });
          refresh("v1/keys?");
          set_secret(made?.key ?? "");
        }}>Create key</Action>
      </div>
    </Dialog>
  );
}

function Choice({ words, names, value, set }: { words: string; names: string[] | undefined; value: string; set: (value: string) => void }) {
  return (
    <label>
      {words}
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">any</option>
        {names?.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}
