// The sandbox of an agent's runs, or of one run, as facts: its level, and what it allows besides the workspace.

interface Sandbox {
  sandbox_level: string; // As asked for.
  writable: string[];
  readable: string[];
  allowed_hosts: string[];
}

/** `applied`: the level at which the run was started, if it was. */
export function SandboxFacts({ of, applied }: { of: Sandbox; applied?: string | null }) {
  const asked = of.sandbox_level === "server_default" ? "default of the server" : of.sandbox_level;
  const level = applied ?? asked;
  const sealed = level.startsWith("sealed");
  return (
    <>
      <dt>sandbox level</dt><dd>{level}</dd>
      <Names name="readable" of={of.readable} />
      <Names name="writable" of={of.writable} />
      {sealed && of.allowed_hosts.length === 0 && <><dt>allowed hosts</dt><dd class="dim">none</dd></>}
      <Names name="allowed hosts" of={of.allowed_hosts} />
    </>
  );
}

function Names({ name, of }: { name: string; of: string[] }) {
  if (of.length === 0) return null;
  return <><dt>{name}</dt><dd class="row tight">{of.map((each) => <code key={each}>{each}</code>)}</dd></>;
}
