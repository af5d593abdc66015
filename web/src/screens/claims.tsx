// Claims: the workspaces and resources that runs have claimed, and the worktrees made for runs.
import { useMemo, useState } from "preact/hooks";
import { Problem, send } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import type { Claim, Collected, Page, Worktree, WorktreeDetail } from "../lib/types";
import { bytes, count, spoken } from "../lib/words";
import { ReadError } from "../ui/list";
import { Action, Dialog, Empty, Section, Table, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Badge, Command, Id, State } from "../ui/words";

const places_change = ["run_changed", "run_ended", "places_restated"];
const worktrees_change = ["worktree_made", "worktree_removed", "run_changed", "run_ended"];

/** Shortened path, because its end differs most. The whole path is on hover. */
function short_path(path: string): string {
  const parts = path.split("/");
  return parts.length > 5 ? `…/${parts.slice(-3).join("/")}` : path;
}

export function Claims() {
  const { data, problem } = useLive<Page<Claim>>("v1/places", places_change);
  return (
    <Section title="Claims" aside={<Command text="interlock claims ls" />}>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty command="interlock run --workspace . -- claude">No claims. Start a run that claims the current directory:</Empty>}
      {data && data.items.length > 0 && (
        <Table label="All claims" rows={data.items} id={(claim) => claim.run + claim.path}
          columns={[
            { title: "workspace or resource", of: (claim) => (
              <><code class="path" title={claim.path}>{short_path(claim.path)}</code>{claim.kind === "resource" && <> <Badge>resource</Badge></>}</>
            ) },
            { title: "mode", of: (claim) => claim.mode },
            { title: "run", of: (claim) => <Id of={claim.run} /> },
            { title: "agent", of: (claim) => claim.agent, wide: true },
            { title: "state", of: (claim) => <State of={claim.status} />, wide: true },
            { title: "since", of: (claim) => <Ago at={claim.since} />, number: true },
          ]} />
      )}
    </Section>
  );
}

export function Worktrees() {
  const { data, problem } = useLive<Page<Worktree>>("v1/worktrees", worktrees_change);
  return (
    <Section title="Worktrees" aside={
      <div class="row">
        {data?.items.some((each) => each.state === "open") && <RemoveAll />}
        <Command text="interlock claims gc" />
      </div>
    }>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty command="interlock run --isolate -- claude">No worktrees. Start a run in one:</Empty>}
      {data && data.items.length > 0 && (
        <ul class="worktrees">{data.items.map((each) => <WorktreeItem key={each.run} worktree={each} />)}</ul>
      )}
    </Section>
  );
}

/** A worktree. The check for removal walks its directory, so it runs only on request. */
function WorktreeItem({ worktree }: { worktree: Worktree }) {
  const [checking, check] = useState(false);
  const changes = useMemo(() => (event: FeedEvent) => event.data.run === worktree.run, [worktree.run]);
  const { data, problem, reload } = useLive<WorktreeDetail>(checking ? `v1/worktrees/${worktree.run}` : null, changes);
  const open = worktree.state === "open";
  return (
    <li>
      <div class="what">
        <div>
          <code class="path" title={`${worktree.branch} in ${worktree.path}`}>{worktree.branch.replace(`/${worktree.run}`, "")}</code>{" "}
          <span class="dim">of</span> <code class="path" title={worktree.repository}>{short_path(worktree.repository)}</code>
        </div>
        <small class="dim">
          <Id of={worktree.run} /> of {worktree.agent || "an unknown agent"}
          {worktree.status && <>, <State of={worktree.status} /></>}, created <Ago at={worktree.created_at} />
          {!worktree.here && `, on node ${worktree.node}`}
          {!open && <>; removed, saved as <code>{worktree.saved_as}</code></>}
        </small>
        {checking && open && (
          <div>
            <ErrorMessage of={problem} />
            {!data && !problem && <Loading />}
            {data && <RemovalCheck of={data} />}
          </div>
        )}
      </div>
      <div class="buttons">
        {open && worktree.here && (
          <button type="button" onClick={() => (checking ? reload() : check(true))}>{checking ? "Check again" : "Check if removable"}</button>
        )}
        {data && open && data.removable !== null && <Remove of={data} />}
        {!open && worktree.here && (
          <Action act={async () => { await send("POST", `v1/worktrees/${worktree.run}/restore`); refresh("v1/worktrees"); }}>Restore worktree</Action>
        )}
      </div>
    </li>
  );
}

function RemovalCheck({ of }: { of: WorktreeDetail }) {
  if (of.removable === null) return <p class="dim">This node cannot check it.</p>;
  const size = of.bytes === null ? "" : `, ${bytes(of.bytes)}`;
  if (of.removable) return <p><State of="ok" /> safe to remove: it has no unsaved work{size}</p>;
  return (
    <>
      <p>Not removable{size}:</p>
      <ul class="reasons">
        {of.reasons.map((reason) => (
          <li key={reason.keeps}><Badge tone="wait">{spoken(reason.keeps)}</Badge> <span class="dim">{reason.detail}</span></li>
        ))}
      </ul>
    </>
  );
}

function why_kept(each: Collected): string {
  return each.detail || each.reasons.map((reason) => reason.detail).join("; ");
}

/** Removes worktrees. Worktrees that were not removed are reported as an error. */
async function collect(runs: string[], force: boolean): Promise<void> {
  const answer = await send<Page<Collected>>("POST", "v1/worktrees/gc", { remove: true, force, runs });
  refresh("v1/worktrees", "v1/places");
  const kept = answer?.items.filter((each) => each.action !== "removed") ?? [];
  if (kept.length > 0) {
    const why = kept.map((each) => `${each.run}: ${why_kept(each)}`);
    throw new Problem(409, kept[0]!.action, why.join("\n"));
  }
}

const never_forced = ["leased", "process_inside"]; // A run or process uses the worktree.

function Remove({ of }: { of: WorktreeDetail }) {
  if (of.removable) {
    const what = <>Removes <code>{of.path}</code>. It has no unsaved work.</>;
    return <Action danger act={() => collect([of.run], false)} confirm={what}>Remove worktree</Action>;
  }
  if (of.reasons.some((reason) => never_forced.includes(reason.keeps))) return null;
  return (
    <Action danger act={() => collect([of.run], true)} confirm={
      <>
        <p><code>{of.path}</code> has unsaved work: {of.reasons.map((reason) => spoken(reason.keeps)).join(", ")}.</p>
        <p>The work is saved in the repository first, without ignored files. Restore it with <code>interlock claims restore {of.run}</code></p>
      </>
    }>Save and remove worktree</Action>
  );
}

/** Removes all worktrees without unsaved work, after listing them. */
function RemoveAll() {
  const allowed = useMay("operate");
  const [found, set_found] = useState<Collected[]>();
  const look = async () => set_found((await send<Page<Collected>>("POST", "v1/worktrees/gc", { remove: false }))?.items ?? []);
  const going = found?.filter((each) => each.action === "would_remove") ?? [];
  const kept = found?.filter((each) => each.action !== "would_remove") ?? [];
  return (
    <>
      <Action act={look} title={allowed ? "List the removable worktrees first" : undefined}>Remove worktrees</Action>
      {found && (
        <Dialog title="Removable worktrees" close={() => set_found(undefined)} wide>
          {going.length === 0 && <p>No removable worktrees.</p>}
          {going.length > 0 && <ul class="reasons">{going.map((each) => <li key={each.run}><code>{each.path}</code></li>)}</ul>}
          {kept.length > 0 && (
            <details>
              <summary>{kept.length} not removable</summary>
              <ul class="reasons">
                {kept.map((each) => <li key={each.run}><code>{each.path}</code> <span class="dim">{why_kept(each)}</span></li>)}
              </ul>
            </details>
          )}
          <div class="row end">
            <button type="button" onClick={() => set_found(undefined)}>Back</button>
            {going.length > 0 && (
              <Action danger act={async () => { await collect(going.map((each) => each.run), false); set_found(undefined); }}>Remove {count(going.length)} {going.length === 1 ? "worktree" : "worktrees"}</Action>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}
