// Chart with a table of the same figures. uPlot is loaded with the first chart.
import type uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";

export interface Line {
  name: string;
  values: (number | null)[];
  tone: "accent" | "held" | "limit" | "bad";
  bars?: boolean;
  dashed?: boolean;
}

/** `times` are seconds since 1970. `figure` formats a value of a line. */
export function Chart({ label, times, lines, figure, tall, rows }: {
  label: string;
  times: number[];
  lines: Line[];
  figure: (height: number) => string;
  tall?: boolean;
  rows?: { heads: string[]; cells: string[][] };
}) {
  const plot_box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const latest = useRef({ times, lines, figure }); // Latest data, for the moment uPlot is loaded.
  latest.current = { times, lines, figure };
  const shape = lines.map((line) => `${line.name} ${line.tone}`).join();
  const data = () => [latest.current.times, ...latest.current.lines.map((line) => line.values)] as uPlot.AlignedData;
  useEffect(() => {
    let gone = false;
    let made: uPlot | undefined;
    const box = plot_box.current!;
    const observer = new ResizeObserver(() => made?.setSize({ width: box.clientWidth, height: box.clientHeight }));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = async () => {
      const { default: Plot } = await import("uplot");
      if (gone) return;
      made?.destroy();
      made = new Plot(options(box, latest.current.lines, latest.current.figure), data(), box);
      plot.current = made;
      observer.observe(box);
    };
    void draw();
    dark.addEventListener("change", draw);
    return () => {
      gone = true;
      dark.removeEventListener("change", draw);
      observer.disconnect();
      made?.destroy();
      plot.current = undefined;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data()));
  const table = rows ?? {
    heads: ["time", ...lines.map((line) => line.name)],
    cells: times.map((time, i) => [new Date(time * 1000).toLocaleString("en-GB"), ...lines.map((line) => {
      const value = line.values[i];
      return value === null || value === undefined ? "" : figure(value);
    })]).reverse(),
  };
  return (
    <figure class="chart">
      <div ref={plot_box} class={tall ? "plot tall" : "plot"} role="img" aria-label={label} />
      <figcaption class="legend">
        {lines.map((line) => <span key={line.name} class={`key ${line.tone}`}>{line.name}</span>)}
        <details>
          <summary>as a table</summary>
          <div class="scroll short" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
            <table>
              <thead><tr>{table.heads.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
              <tbody>{table.cells.map((cells) => <tr key={cells[0]}>{cells.map((cell, i) => <td key={i} class={i > 0 ? "number" : ""}>{cell}</td>)}</tr>)}</tbody>
            </table>
          </div>
        </details>
      </figcaption>
    </figure>
  );
}

function options(box: HTMLElement, lines: Line[], figure: (height: number) => string): uPlot.Options {
  // The colours are CSS custom properties, so an element resolves them for the current colour scheme.
  const probe = box.appendChild(document.createElement("i"));
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const dim = colour("dim");
  const rule = colour("line");
  const axis = { stroke: dim, font: "12px system-ui, sans-serif", grid: { stroke: rule, width: 1 }, ticks: { show: false } };
  const series: uPlot.Series[] = lines.map((line) => ({
    label: line.name,
    stroke: colour(line.tone),
    width: line.bars ? 0 : 2,
    fill: line.bars ? colour(line.tone) : undefined,
    dash: line.dashed ? [6, 4] : undefined,
    points: { show: false },
    paths: line.bars ? bars : undefined,
  }));
  probe.remove();
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, values: clock }, { ...axis, size: 64, values: (_plot, heights) => heights.map(figure) }],
    series: [{}, ...series],
  };
}

/** Axis labels: the time, or the date at midnight and for steps of a day or more. */
function clock(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  return splits.map((seconds) => {
    const at = new Date(seconds * 1000);
    const midnight = at.getHours() === 0 && at.getMinutes() === 0;
    return step >= 86_400 || midnight
      ? at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })
      : at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  });
}

const bars: uPlot.Series.PathBuilder = (plot, series, from, to) => {
  const path = new Path2D();
  const times = plot.data[0];
  const values = plot.data[series]!;
  const floor = plot.valToPos(0, "y", true);
  const step = times.length > 1 ? plot.valToPos(times[1]!, "x", true) - plot.valToPos(times[0]!, "x", true) : 12;
  const width = Math.max(1, step * 0.7);
  for (let i = from; i <= to; i += 1) {
    const value = values[i];
    if (!value) continue;
    const top = plot.valToPos(value, "y", true);
    path.rect(plot.valToPos(times[i]!, "x", true) - width / 2, top, width, floor - top);
  }
  return { stroke: path, fill: path };
};
