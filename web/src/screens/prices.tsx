// Models with their prices, and models without one. A price is text everywhere, so no digit is lost.
import { useState } from "preact/hooks";
import { query, send } from "../lib/api";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import type { Page, Price, UnpricedModel, UsedModel } from "../lib/types";
import { count, shell_command } from "../lib/words";
import { ReadError } from "../ui/list";
import { Action, Dialog, Empty, Loading, no_right, Section, Table } from "../ui/parts";
import { Ago, Badge, Command, Money } from "../ui/words";

const models_change = ["charged", "setting_changed"];
const prices_change = ["setting_changed"];

interface Named {
  provider: string;
  model: string;
  price?: Price | null;
  price_source?: UsedModel["price_source"];
}

export function Models() {
  const models = useLive<{ items: UsedModel[] }>("v1/gateway/models", models_change);
  const [setting, set] = useState<Named>();
  const { data, problem } = models;
  return (
    <>
      <Unpriced set_price={set} />
      <Section title="Models of the last 30 days" aside={<Command text="interlock prices ls" />}>
        <ReadError of={problem} />
        {!data && !problem && <Loading />}
        {data?.items.length === 0 && <Empty command="interlock prices ls">No models. List prices:</Empty>}
        {data && data.items.length > 0 && (
          <Table label="Models, most expensive first" rows={data.items} id={(model) => `${model.provider}/${model.model}`}
            columns={[
              { title: "model", of: (model) => <>{model.model}<small class="dim under">{model.provider}</small></> },
              { title: "calls", of: (model) => count(model.calls), number: true, wide: true },
              { title: "tokens", of: (model) => count(model.tokens), number: true, wide: true },
              { title: "cost", of: (model) => <Money value={model.cost} />, number: true },
              { title: "$ per 1M in", of: (model) => per_million(model.price?.input_per_mtok), number: true },
              { title: "out", of: (model) => per_million(model.price?.output_per_mtok), number: true },
              { title: "price", of: (model) => <Source of={model} />, wide: true },
              { title: "actions", untitled: true, of: (model) => <div class="buttons">{model.provider && <SetPrice of={model} set_price={set} />}</div> },
            ]} />
        )}
      </Section>
      {setting && <PriceDialog of={setting} close={() => set(undefined)} />}
    </>
  );
}

function per_million(text: string | undefined) {
  return text ? <span title={`$${text}`}>{text}</span> : <span class="dim">–</span>;
}

function Source({ of }: { of: UsedModel }) {
  if (of.provider === "") return <span class="dim">cost given by the client</span>;
  if (!of.priced) return <Badge tone="wait">no price</Badge>;
  return (
    <>
      {of.price_source === "set" ? "set by an operator" : "from the price list"}
      {(of.price?.tiers || of.price?.variants) && ", more for long prompts or other operations"}
      <small class="dim under">{of.price_version && `${of.price_version}, `}{of.price_from && <Ago at={of.price_from} />}</small>
    </>
  );
}

function SetPrice({ of, set_price }: { of: Named; set_price: (of: Named) => void }) {
  const allowed = useMay("operate");
  return <button type="button" disabled={!allowed} title={allowed ? undefined : no_right} onClick={() => set_price(of)}>Set price</button>;
}

/** Shown only if there is a model without a price. */
function Unpriced({ set_price }: { set_price: (of: Named) => void }) {
  const { data, problem } = useLive<Page<UnpricedModel>>("v1/prices/unpriced", prices_change);
  if (!problem && !data?.items.length) return null;
  return (
    <Section title="Models without a price" aside={<Command text="interlock prices unpriced" />}>
      <ReadError of={problem} />
      {data && data.items.length > 0 && (
        <Table label="All models without a price" rows={data.items} id={(model) => `${model.provider}/${model.model}`}
          columns={[
            { title: "model", of: (model) => <>{model.model}<small class="dim under">{model.provider}</small></> },
            { title: "calls", of: (model) => count(model.calls), number: true },
            { title: "refused", of: (model) => count(model.refused), number: true },
            { title: "tokens", of: (model) => count(model.tokens), number: true, wide: true },
            { title: "last", of: (model) => <Ago at={model.last_at} />, number: true, wide: true },
            { title: "actions", untitled: true, of: (model) => <div class="buttons"><SetPrice of={model} set_price={set_price} /></div> },
          ]} />
      )}
    </Section>
  );
}

type Field = Exclude<keyof Price, "provider" | "model" | "tiers" | "variants" | "version">;
const fields: { name: Field; words: string; otherwise: string; decimals: number }[] = [
  { name: "input_per_mtok", words: "Input, per 1M tokens", otherwise: "", decimals: 6 },
  { name: "output_per_mtok", words: "Output, per 1M tokens", otherwise: "", decimals: 6 },
  { name: "cache_read_per_mtok", words: "Cache read, per 1M tokens", otherwise: "as input", decimals: 6 },
  { name: "cache_write_5m_per_mtok", words: "Cache write for 5 minutes, per 1M tokens", otherwise: "as input", decimals: 6 },
  { name: "cache_write_1h_per_mtok", words: "Cache write for 1 hour, per 1M tokens", otherwise: "as for 5 minutes", decimals: 6 },
  { name: "reasoning_per_mtok", words: "Reasoning, per 1M tokens", otherwise: "as output", decimals: 6 },
  { name: "per_call", words: "Per call", otherwise: "0", decimals: 12 },
];
const flags: Record<Field, string> = {
  input_per_mtok: "--input", output_per_mtok: "--output", cache_read_per_mtok: "--cache-read", cache_write_5m_per_mtok: "--cache-write-5m",
  cache_write_1h_per_mtok: "--cache-write-1h", reasoning_per_mtok: "--reasoning", per_call: "--per-call",
};

/** True for an amount of dollars that the API accepts. Six digits of dollars fit into its count of pico-dollars. */
function is_amount(text: string, decimals: number): boolean {
  return new RegExp(`^\\d{1,6}(\\.\\d{1,${decimals}})?$`).test(text);
}

function PriceDialog({ of, close }: { of: Named; close: () => void }) {
  const [texts, set_texts] = useState<Partial<Record<Field, string>>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, of.price?.[field.name] ?? ""])));
  const stated = fields.map((field) => ({ ...field, text: (texts[field.name] ?? "").trim() }));
  const wrong = stated.filter((field) => (field.text === "" ? field.otherwise === "" : !is_amount(field.text, field.decimals)));
  // A price is set as a whole, so the parts without a field here are sent as they are.
  const { version: _, ...kept } = of.price ?? { provider: of.provider, model: of.model };
  const body = { ...kept, provider: of.provider, model: of.model, ...Object.fromEntries(stated.map((field) => [field.name, field.text || undefined])) };
  const change = async (method: "PUT" | "DELETE", path: string, body?: object) => {
    await send(method, path, body);
    refresh("v1/prices", "v1/gateway", "v1/incidents");
    close();
  };
  const unclear = wrong.find((field) => field.text !== "");
  const said = stated.filter((field) => field.text !== "").flatMap((field) => [flags[field.name], field.text]);
  const has_more = of.price?.tiers || of.price?.variants;
  return (
    <Dialog title={`Price of ${of.model}`} close={close}>
      <p class="dim">In dollars. It replaces the price of the list from now on. Earlier charges do not change.</p>
      {has_more && <p>Prices for long prompts and other operations do not change.</p>}
      <div class="fields">
        {stated.map((field) => (
          <label key={field.name}>
            {field.words}
            <input inputMode="decimal" value={field.text} placeholder={field.otherwise || "3.75"} required={field.otherwise === ""}
              aria-invalid={field.text !== "" && wrong.some((each) => each.name === field.name)}
              onInput={(event) => set_texts({ ...texts, [field.name]: event.currentTarget.value })} />
          </label>
        ))}
      </div>
      {unclear && <p class="dim" role="status">Enter an amount such as 3.75, with at most {unclear.decimals} decimals.</p>}
      {!has_more && <Command text={shell_command("interlock", "prices", "set", `${of.provider}/${of.model}`, ...said)} />}
      <div class="row end">
        {of.price_source === "set" && (
          <Action act={() => change("DELETE", query("v1/prices", { provider: of.provider, model: of.model }))}>Use list price</Action>
        )}
        <button type="button" onClick={close}>Back</button>
        <Action disabled={wrong.length > 0} act={() => change("PUT", "v1/prices", body)}>Set price</Action>
      </div>
    </Dialog>
  );
}
