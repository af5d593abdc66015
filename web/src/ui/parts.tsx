// Components that all screens share.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Problem } from "../lib/api";
import { type Access, useMay } from "../lib/me";
import { percent } from "../lib/words";
import { Command } from "./words";

/** A screen: its title, a summary, and the command that prints the same on a terminal. */
export function Screen({ title, summary, command, actions, children }: {
  title: ComponentChildren;
  summary?: string;
  command: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <>
      <header class="screen">
        <div>
          <h1>{title}</h1>
          {summary && <p class="dim">{summary}</p>}
        </div>
        <div class="row">
          {actions}
          <Command text={command} />
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

/** Empty state of a list, with the command that creates an entry. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <Command text={command} />}
    </div>
  );
}

/** The error of an API request, in the API's words. */
export function ErrorMessage({ of }: { of: Problem | undefined }) {
  if (!of) return null;
  return (
    <p class="error" role="alert">
      {of.detail}
      {of.code !== "unreachable" && <code class="dim"> {of.code}</code>}
    </p>
  );
}

/** Shown until the first response. It appears after a delay, because most responses are faster. */
export function Loading() {
  return <p class="loading dim" aria-busy="true">loading …</p>;
}

/** Bar of settled, held and free. Amounts are nano-units. */
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

export const no_right = "your API key does not have the right to do this";

/** Button that changes something. It shows the error of a failed request, and asks first if `confirm` is set. */
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
        title={allowed ? title : no_right} onClick={() => (confirm ? ask(true) : void run())}>
        {children}
      </button>
      {!asking && <ErrorMessage of={problem} />}
      {asking && (
        <Dialog title={<>{children}?</>} close={() => ask(false)}>
          <div>{confirm}</div>
          <ErrorMessage of={problem} />
          <div class="row end">
            <button type="button" onClick={() => ask(false)}>Back</button>
            <button type="button" class={danger ? "danger" : "primary"} disabled={busy} onClick={() => void run()}>{children}</button>
          </div>
        </Dialog>
      )}
    </>
  );
}

export function Dialog({ title, close, children, wide }: { title: ComponentChildren; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class={wide ? "wide" : ""} onClose={close} aria-labelledby={id}
      onClick={(event) => event.target === dialog.current && close()}>
      <header class="row">
        <h2 id={id}>{title}</h2>
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
  wide?: boolean; // Hidden on narrow screens.
  untitled?: boolean; // Only screen readers get the title.
}

/** Plain table, for lists of up to a few hundred rows. */
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
