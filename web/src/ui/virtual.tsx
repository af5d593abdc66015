// Table of any number of rows. Only the rows in view are in the DOM.
//
//   (1) All rows have the same height, so the index of a row gives its position.
//   (2) Rows that appear or disappear elsewhere do not move the anchor: the selected row, or the first one in view, stays
//       where it is on the screen. A table without an anchor shows new rows: it is scrolled to its top, and neither has a
//       selected row in view nor the pointer over it.
import type { Ref } from "preact";
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Column } from "./parts";

export interface VirtualHandle {
  /** Scrolls as little as needed to bring a row into view. */
  reveal(index: number): void;
  focus(): void;
}

interface Anchor {
  id: string;
  top: number; // Pixels below the first row in view.
}

const overscan = 10; // Rows drawn above and below the view.

export function VirtualTable<T>({ label, columns, count, complete, id_at, row_at, index_of, row_height, current, open, mark, marked, move, show, handle }: {
  label: string;
  columns: (Column<T> & { size: string })[];
  count: number;
  complete: boolean;
  id_at: (index: number) => string;
  row_at: (index: number) => T | undefined; // Undefined while it is loading.
  index_of: (id: string) => number; // -1: not there.
  row_height: number;
  current: string | undefined;
  open: (index: number) => void;
  mark: (index: number, range: boolean) => void;
  marked: ReadonlySet<string>;
  move: (step: number) => void;
  show: (first: number, last: number, at_top: boolean) => void;
  handle: Ref<VirtualHandle>;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const table = useRef<HTMLTableElement>(null);
  const anchor = useRef<Anchor>();
  const pointed = useRef(false);
  const [scrolled, set_scrolled] = useState(0);
  const [view_height, set_view_height] = useState(600);

  // Keeps the anchor where it was at the last render.
  let top = scrolled;
  const held = anchor.current;
  if (held) {
    const index = index_of(held.id);
    if (index >= 0) top = Math.max(0, index * row_height - held.top);
  }
  top = Math.min(top, Math.max(0, count * row_height - (view_height - row_height)));
  const first = Math.max(0, Math.floor(top / row_height) - overscan);
  const last = Math.min(count, Math.ceil((top + view_height) / row_height) + overscan);

  const drop_anchor = (at: number) => {
    const in_view = (index: number) => index * row_height >= at - row_height && (index + 1) * row_height <= at + view_height;
    const chosen = current === undefined ? -1 : index_of(current);
    const index = chosen >= 0 && in_view(chosen) ? chosen : at > 0 || pointed.current ? Math.ceil(at / row_height) : -1;
    anchor.current = index >= 0 && index < count ? { id: id_at(index), top: index * row_height - at } : undefined;
  };

  useLayoutEffect(() => {
    // Only if needed, because setting scrollTop forces another layout.
    if (top !== scrolled) {
      scroller.current!.scrollTop = top;
      set_scrolled(top);
    }
    drop_anchor(top);
  });
  useEffect(() => {
    const box = scroller.current!;
    const observer = new ResizeObserver(() => set_view_height(box.clientHeight));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  useEffect(() => show(Math.floor(top / row_height), Math.min(count, Math.ceil((top + view_height) / row_height)), top < row_height));
  useImperativeHandle(handle, () => ({
    reveal: (index) => {
      const box = scroller.current!;
      const at = index * row_height;
      const lowest = at - (box.clientHeight - 2 * row_height);
      const next = at < box.scrollTop ? at : lowest > box.scrollTop ? lowest : box.scrollTop;
      anchor.current = undefined;
      box.scrollTop = next;
      set_scrolled(next);
    },
    focus: () => table.current?.focus({ preventScroll: true }),
  }));

  const on_scroll = () => {
    const at = scroller.current!.scrollTop;
    drop_anchor(at);
    set_scrolled(at);
  };
  const on_key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(step);
  };
  const on_click = (event: MouseEvent, index: number) => {
    const at = event.target as HTMLElement;
    if (at.closest("input")) return mark(index, event.shiftKey);
    if (event.shiftKey) {
      event.preventDefault();
      return mark(index, true);
    }
    if (!at.closest("a, button")) open(index);
  };

  const rows = [];
  for (let index = first; index < last; index += 1) {
    const id = id_at(index);
    const row = row_at(index);
    rows.push(
      <tr key={id} id={`row-${id}`} class="opens" aria-rowindex={index + 2} aria-selected={current === id} data-marked={marked.has(id) || undefined}
        onMouseDown={keep_focus} onClick={(event) => on_click(event, index)}>
        <td class="mark">
          <input type="checkbox" tabIndex={-1} aria-label={`Mark ${id}`} checked={marked.has(id)} />
        </td>
        {row === undefined
          ? <td colSpan={columns.length} class="dim">…</td>
          : columns.map((column) => <td key={column.title} class={classes(column)}>{column.of(row)}</td>)}
      </tr>,
    );
  }
  const in_view = current !== undefined && index_of(current) >= first && index_of(current) < last;
  return (
    <div class="virtual" ref={scroller} onScroll={on_scroll}
      onPointerEnter={() => (pointed.current = true)} onPointerLeave={() => (pointed.current = false)}>
      <div style={{ height: `${(count + 1) * row_height}px`, paddingTop: `${first * row_height}px` }}>
        <table ref={table} role="grid" aria-label={label} aria-rowcount={complete ? count + 1 : -1} aria-multiselectable="true" tabIndex={0}
          aria-activedescendant={in_view ? `row-${current}` : undefined} onKeyDown={on_key}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col" class="mark"><span class="unseen">marked</span></th>
              {columns.map((column) => <th key={column.title} scope="col" class={classes(column)}>{column.title}</th>)}
            </tr>
          </thead>
          <tbody>{rows}</tbody>
        </table>
      </div>
    </div>
  );
}

/** Keeps the focus and the text selection when a row is marked. */
function keep_focus(event: MouseEvent): void {
  if (event.shiftKey || (event.target as HTMLElement).closest("input")) event.preventDefault();
}

function classes(column: { number?: boolean; wide?: boolean; size: string }): string {
  return `${column.size} ${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`;
}
