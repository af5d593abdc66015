// Places: the directories and resources that runs hold, and the worktrees that were made for them.
import { useMemo, useState } from "preact/hooks";
import { Problem, send } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import type { Claim, Collected, Page, Worktree, WorktreeDetail } from "../lib/types";
import { bytes, spoken } from "../lib/words";
import { Unread } from "../ui/list";
import { Action, Dialog, Empty, Section, Table, Trouble, Waiting } from "../ui/parts";
import { Ago, Badge, Command, Id, State } from "../ui/words";

const places_change = ["run_changed", "run_ended", "places_restated"];
const worktrees_change = ["worktree_made", "worktree_removed", "run_changed", "run_ended"];

/** The end of a path is what tells it from its neighbours; the whole is on hover. */
function short_path(path: string): string {
  const parts = path.split("/");
  return parts.length > 5 ? `…/${parts.slice(-3).join("/")}` : path;
}

export function Places() {
  const { data, problem } = useLive<Page<Claim>>("v1/places", places_change);
  return (
    <Section title="Places that are taken" aside={<Command text="interlock places ls" />}>
      <Unread of={problem} />
      {!data && !problem && <Waiting />}
      {data?.items.length === 0 && <Empty command="interlock run --workspace . -- claude">No run holds a place. This takes the directory one stands in:</Empty>}
      {data && data.items.length > 0 && (
        <Table label="All places that are taken" rows={data.items} id={(claim) => claim.run + claim.path}
          columns={[
            { title: "place", of: (claim) => (
              <><code class="path" title={claim.path}>{short_path(claim.path)}</code>{claim.kind === "resource" && <> <Badge>resource</Badge></>}</>
            ) },
            { title: "to", of: (claim) => claim.mode },
            { title: "by", of: (claim) => <Id of={claim.run} /> },
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
        {data?.items.some((each) => each.state === "open") && <CleanUp />}
        <Command text="interlock places gc" />
      </div>
    }>
      <Unread of={problem} />
      {!data && !problem && <Waiting />}
      {data?.items.length === 0 && <Empty command="interlock run --isolate -- claude">No run was given a copy of its repository. This gives one:</Empty>}
      {data && data.items.length > 0 && (
        <ul class="worktrees">{data.items.map((each) => <OneWorktree key={each.run} worktree={each} />)}</ul>
      )}
    </Section>
  );
}

/** What keeps it is looked up when somebody asks: that walks over a disk. */
function OneWorktree({ worktree }: { worktree: Worktree }) {
  const [looking, look] = useState(false);
  const changes = useMemo(() => (event: FeedEvent) => event.data.run === worktree.run, [worktree.run]);
  const { data, problem, reload } = useLive<WorktreeDetail>(looking ? `v1/worktrees/${worktree.run}` : null, changes);
  const open = worktree.state === "open";
  return (
    <li>
      <div class="what">
        <div>
          <code class="path" title={`${worktree.branch} in ${worktree.path}`}>{worktree.branch.replace(`/${worktree.run}`, "")}</code>{" "}
          <span class="dim">of</span> <code class="path" title={worktree.repository}>{short_path(worktree.repository)}</code>
        </div>
        <small class="dim">
          <Id of={worktree.run} /> of {worktree.agent || "nobody known"}
          {worktree.status && <>, <State of={worktree.status} /></>}, made <Ago at={worktree.created_at} />
          {!worktree.here && `, on the disk of ${worktree.node}`}
          {!open && <>; removed, saved as <code>{worktree.saved_as}</code></>}
        </small>
        {looking && open && (
          <div>
            <Trouble of={problem} />
            {!data && !problem && <Waiting />}
            {data && <Verdict of={data} />}
          </div>
        )}
      </div>
      <div class="buttons">
        {open && worktree.here && (
          <button type="button" onClick={() => (looking ? reload() : look(true))}>{looking ? "Look again" : "May it go?"}</button>
        )}
        {data && open && data.removable !== null && <Remove of={data} />}
        {!open && worktree.here && (
          <Action act={async () => { await send("POST", `v1/worktrees/${worktree.run}/restore`); refresh("v1/worktrees"); }}>Restore</Action>
        )}
      </div>
    </li>
  );
}

function Verdict({ of }: { of: WorktreeDetail }) {
  if (of.removable === null) return <p class="dim">It cannot be looked at from here.</p>;
  const size = of.bytes === null ? "" : `, ${bytes(of.bytes)}`;
  if (of.removable) return <p><State of="ok" /> safe to remove: nothing would be lost with it{size}</p>;
  return (
    <>
      <p>Kept{size}, because:</p>
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

/** Whatever was not removed is said as a problem: nobody presses this to hear that all stays as it is. */
async function collect(runs: string[], force: boolean): Promise<void> {
  const answer = await send<Page<Collected>>("POST", "v1/worktrees/gc", { remove: true, force, runs });
  refresh("v1/worktrees", "v1/places");
  const kept = answer?.items.filter((each) => each.action !== "removed") ?? [];
  if (kept.length > 0) {
    const why = kept.map((each) => `${each.run}: ${why_kept(each)}`);
    throw new Problem(409, kept[0]!.action, why.join("\n"));
  }
}

const never_forced = ["leased", "process_inside"]; // Somebody is at work in it.

function Remove({ of }: { of: WorktreeDetail }) {
  if (of.removable) {
    const what = <>The worktree <code>{of.path}</code> is removed. Nothing would be lost with it.</>;
    return <Action danger act={() => collect([of.run], false)} confirm={what}>Remove</Action>;
  }
  if (of.reasons.some((reason) => never_forced.includes(reason.keeps))) return null;
  return (
    <Action danger act={() => collect([of.run], true)} confirm={
      <>
        <p>There is work in <code>{of.path}</code>: {of.reasons.map((reason) => spoken(reason.keeps)).join(", ")}.</p>
        <p>It is saved in its repository first, but for ignored files. <code>interlock places restore {of.run}</code> brings it back.</p>
      </>
    }>Save and remove</Action>
  );
}

/** All in which nothing can be lost, after having shown which those are. */
function CleanUp() {
  const allowed = useMay("operate");
  const [found, set_found] = useState<Collected[]>();
  const look = async () => set_found((await send<Page<Collected>>("POST", "v1/worktrees/gc", { remove: false }))?.items ?? []);
  const going = found?.filter((each) => each.action === "would_remove") ?? [];
  const kept = found?.filter((each) => each.action !== "would_remove") ?? [];
  return (
    <>
      <Action act={look} title={allowed ? "Shows first what would be removed" : undefined}>Clean up</Action>
      {found && (
        <Dialog title="Worktrees in which nothing can be lost" close={() => set_found(undefined)} wide>
          {going.length === 0 && <p>There are none.</p>}
          {going.length > 0 && <ul class="reasons">{going.map((each) => <li key={each.run}><code>{each.path}</code></li>)}</ul>}
          {kept.length > 0 && (
            <details>
              <summary>{kept.length} stay</summary>
              <ul class="reasons">
                {kept.map((each) => <li key={each.run}><code>{each.path}</code> <span class="dim">{why_kept(each)}</span></li>)}
              </ul>
            </details>
          )}
          <div class="row end">
            <button type="button" onClick={() => set_found(undefined)}>Leave them</button>
            {going.length > 0 && (
              <Action danger act={async () => { await collect(going.map((each) => each.run), false); set_found(undefined); }}>Remove {going.length}</Action>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}
