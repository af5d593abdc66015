// The parts that screens are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../lib/api";
import { type Access, useMay } from "../lib/me";
import { percent } from "../lib/words";
import { Command } from "./words";

/** A screen: its name, the question it answers, and the command that answers it on a terminal. */
export function Screen({ title, question, twin, actions, children }: {
  title: ComponentChildren;
  question?: string;
  twin: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <>
      <header class="screen">
        <div>
          <h1>{title}</h1>
          {question && <p class="dim">{question}</p>}
        </div>
        <div class="row">
          {actions}
          <Command text={twin} />
        </div>
      </header>
      {children}
    </>
  );
}

export function Section({ title, aside, children, id }: { title: string; aside?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section class="card" aria-label={title} id={id}>
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

export function Tile({ name, value, note, tone, href }: { name: string; value: ComponentChildren; note?: ComponentChildren; tone?: string; href?: string }) {
  const inside = (
    <>
      <span class="dim">{name}</span>
      <strong>{value}</strong>
      <small class="dim">{note}</small>
    </>
  );
  return href ? <a class={`tile ${tone ?? ""}`} href={href}>{inside}</a> : <div class={`tile ${tone ?? ""}`}>{inside}</div>;
}

/** Nothing is there yet: what to do about it. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <Command text={command} />}
    </div>
  );
}

/** What the API said, in its own words. */
export function Trouble({ of }: { of: Problem | undefined }) {
  if (!of) return null;
  return (
    <p class="trouble" role="alert">
      {of.detail}
      {of.code !== "unreachable" && <code class="dim"> {of.code}</code>}
    </p>
  );
}

/** Until the first answer is here. Says nothing for a moment: most answers are quicker than an eye. */
export function Waiting() {
  return <p class="waiting dim" aria-busy="true">reading …</p>;
}

/** Settled, held and free, of a limit. Amounts are exact units. */
export function Bar({ settled, held, limit, label }: { settled: bigint; held: bigint; limit: bigint; label: string }) {
  const used = Math.min(100, percent(settled, limit));
  const kept = Math.min(100 - used, percent(held, limit));
  return (
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="free" width="100" height="8" />
      <rect class={used >= 100 ? "over" : "settled"} width={used} height="8" />
      <rect class="held" x={used} width={kept} height="8" />
    </svg>
  );
}

/** A button that changes something. Says what the API said when that failed; asks first when `confirm` is given. */
export function Action({ needs = "operate", act, confirm, danger, children, disabled, title }: {
  needs?: Access;
  act: () => Promise<unknown>;
  confirm?: ComponentChildren;
  danger?: boolean;
  children: ComponentChildren;
  disabled?: boolean;
  title?: string;
}) {
  const allowed = useMay(needs);
  const [busy, set_busy] = useState(false);
  const [asking, ask] = useState(false);
  const [problem, set_problem] = useState<Problem>();
  const run = async () => {
    set_busy(true);
    set_problem(undefined);
    try {
      await act();
      ask(false);
    } catch (error) {
      set_problem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
    }
    set_busy(false);
  };
  return (
    <>
      <button type="button" class={danger ? "danger" : ""} disabled={!allowed || busy || disabled}
        title={allowed ? title : "your key may only look"} onClick={() => (confirm ? ask(true) : void run())}>
        {children}
      </button>
      {!asking && <Trouble of={problem} />}
      {asking && (
        <Dialog title="Are you sure?" close={() => ask(false)}>
          <div>{confirm}</div>
          <Trouble of={problem} />
          <div class="row end">
            <button type="button" onClick={() => ask(false)}>Leave it</button>
            <button type="button" class={danger ? "danger" : "primary"} disabled={busy} onClick={() => void run()}>{children}</button>
          </div>
        </Dialog>
      )}
    </>
  );
}

export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class={wide ? "wide" : ""} onClose={close} aria-label={title}
      onClick={(event) => event.target === dialog.current && close()}>
      <header class="row">
        <h2>{title}</h2>
        <button type="button" class="plain" onClick={close} aria-label="Close">✕</button>
      </header>
      {children}
    </dialog>
  );
}

export interface Column<T> {
  title: string;
  of: (row: T) => ComponentChildren;
  number?: boolean;
  wide?: boolean; // Left out where there is little room.
  untitled?: boolean; // The title is only read out: what is in the column speaks for itself.
}

/** A plain table, for lists that fit on a screen or two. */
export function Table<T>({ label, columns, rows, id, open, chosen }: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  open?: (row: T) => void;
  chosen?: string;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={`${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`}>
                {column.untitled ? <span class="unseen">{column.title}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} class={open ? "opens" : ""} aria-selected={chosen === undefined ? undefined : chosen === id(row)}
              onClick={open && ((event) => (event.target as HTMLElement).closest("a, button, input, dialog") || open(row))}>
              {columns.map((column) => (
                <td key={column.title} class={`${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`}>{column.of(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
