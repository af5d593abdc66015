// Models: what they cost, how old that price is, and those that have none. A price is text from end to end: no digit is lost.
import { useState } from "preact/hooks";
import { query, send } from "../lib/api";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import type { Page, Price, UnpricedModel, UsedModel } from "../lib/types";
import { count, shell_command } from "../lib/words";
import { Unread } from "../ui/list";
import { Action, Dialog, Empty, Section, Table, Waiting } from "../ui/parts";
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
        <Unread of={problem} />
        {!data && !problem && <Waiting />}
        {data?.items.length === 0 && <Empty command="interlock prices ls">No model was paid for yet. What they would cost:</Empty>}
        {data && data.items.length > 0 && (
          <Table label="Models, the dearest first" rows={data.items} id={(model) => `${model.provider}/${model.model}`}
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
  if (of.provider === "") return <span class="dim">as whoever charged it said</span>;
  if (!of.priced) return <Badge tone="wait">no price</Badge>;
  return (
    <>
      {of.price_source === "set" ? "set here" : "from the list"}
      {(of.price?.tiers || of.price?.variants) && ", more for long prompts or other kinds of calls"}
      <small class="dim under">{of.price_version && `${of.price_version}, `}{of.price_from && <Ago at={of.price_from} />}</small>
    </>
  );
}

function SetPrice({ of, set_price }: { of: Named; set_price: (of: Named) => void }) {
  const allowed = useMay("operate");
  return <button type="button" disabled={!allowed} title={allowed ? undefined : "your key may only look"} onClick={() => set_price(of)}>Set price</button>;
}

/** Nothing is said while there is none: a model without a price is the exception. */
function Unpriced({ set_price }: { set_price: (of: Named) => void }) {
  const { data, problem } = useLive<Page<UnpricedModel>>("v1/prices/unpriced", prices_change);
  if (!problem && !data?.items.length) return null;
  return (
    <Section title="Models without a price" aside={<Command text="interlock prices unpriced" />}>
      <Unread of={problem} />
      {data && data.items.length > 0 && (
        <Table label="All models without a price" rows={data.items} id={(model) => `${model.provider}/${model.model}`}
          columns={[
            { title: "model", of: (model) => <>{model.model}<small class="dim under">{model.provider}</small></> },
            { title: "calls", of: (model) => count(model.calls), number: true },
            { title: "of them refused", of: (model) => count(model.refused), number: true },
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
  { name: "input_per_mtok", words: "A million tokens in", otherwise: "", decimals: 6 },
  { name: "output_per_mtok", words: "A million tokens out", otherwise: "", decimals: 6 },
  { name: "cache_read_per_mtok", words: "Read from the cache", otherwise: "as in", decimals: 6 },
  { name: "cache_write_5m_per_mtok", words: "Cached for 5 minutes", otherwise: "as in", decimals: 6 },
  { name: "cache_write_1h_per_mtok", words: "Cached for an hour", otherwise: "as for 5 minutes", decimals: 6 },
  { name: "reasoning_per_mtok", words: "Reasoning", otherwise: "as out", decimals: 6 },
  { name: "per_call", words: "Each call", otherwise: "0", decimals: 12 },
];
const flags: Record<Field, string> = {
  input_per_mtok: "--input", output_per_mtok: "--output", cache_read_per_mtok: "--cache-read", cache_write_5m_per_mtok: "--cache-write-5m",
  cache_write_1h_per_mtok: "--cache-write-1h", reasoning_per_mtok: "--reasoning", per_call: "--per-call",
};

/** An amount of dollars as the API takes it. Whole dollars stay below what a count of pico-dollars holds. */
function is_amount(text: string, decimals: number): boolean {
  return new RegExp(`^\\d{1,6}(\\.\\d{1,${decimals}})?$`).test(text);
}

function PriceDialog({ of, close }: { of: Named; close: () => void }) {
  const [texts, set_texts] = useState<Partial<Record<Field, string>>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, of.price?.[field.name] ?? ""])));
  const stated = fields.map((field) => ({ ...field, text: (texts[field.name] ?? "").trim() }));
  const wrong = stated.filter((field) => (field.text === "" ? field.otherwise === "" : !is_amount(field.text, field.decimals)));
  // A price is set as a whole: of the one that holds, what has no field here stays as it is.
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
    <Dialog title={`What ${of.model} costs`} close={close}>
      <p class="dim">In dollars, over the list's, from now on. What was charged before stays as it is.</p>
      {has_more && <p>What it costs with long prompts or in other kinds of calls stays as it is.</p>}
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
      {unclear && <p class="dim" role="status">An amount is digits, such as 3.75, with at most {unclear.decimals} decimals.</p>}
      {!has_more && <Command text={shell_command("interlock", "prices", "set", `${of.provider}/${of.model}`, ...said)} />}
      <div class="row end">
        {of.price_source === "set" && (
          <Action act={() => change("DELETE", query("v1/prices", { provider: of.provider, model: of.model }))}>Back to the list's</Action>
        )}
        <button type="button" onClick={close}>Leave it</button>
        <Action disabled={wrong.length > 0} act={() => change("PUT", "v1/prices", body)}>Set this price</Action>
      </div>
    </Dialog>
  );
}
