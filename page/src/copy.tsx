/** Any view as a text that does the same elsewhere: SPARQL, curl, Python. */

import { useRef, useState } from "preact/hooks";
import { Choice, MODEL } from "./ui";

export interface Forms {
  sparql: string;
  curl: string;
  python: string;
}

/** A text as one word of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export const here = (path: string) => new URL(path, location.href.split("#")[0]).href;

/** A text as Python writes it: JSON does, but for what lies beyond the basic plane. */
export const python = (text: string) => JSON.stringify(text);

export const loading = `import knowledge_sheaves as ks\n\nmodel = ks.load(${python(MODEL)})  # the folder that is served`;

export function curlJson(path: string, body: unknown): string {
  return `curl ${quoted(here(path))} --json ${quoted(JSON.stringify(body))}`;
}

/** A query over the facts, with blocks of predictions in it. */
export function sparqlForms(query: string): Forms {
  return {
    sparql: query,
    curl: `curl ${quoted(here("sparql"))} --header 'Accept: text/csv' --data-urlencode ${quoted(`query=${query}`)}`,
    python: `${loading}\nfound = model.sparql(${python(query)})\nprint(found.serialize().decode())`,
  };
}

export function Copy({ forms }: { forms: () => Forms }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const text = useRef<HTMLPreElement>(null);
  const [form, setForm] = useState<keyof Forms>("sparql");
  const [all, setAll] = useState<Forms>({ sparql: "", curl: "", python: "" });
  const [done, setDone] = useState("");
  const open = () => {
    setAll(forms());
    setDone("");
    dialog.current?.showModal();
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(all[form]);
      setDone("Copied.");
    } catch {
      // browsers give no clipboard to pages without encryption from other machines
      if (text.current) getSelection()?.selectAllChildren(text.current);
      setDone("Selected: press Ctrl+C.");
    }
  };
  return (
    <>
      <button type="button" onClick={open}>
        Copy as …
      </button>
      <dialog
        ref={dialog}
        class="copy"
        aria-label="Copy this view"
        onClick={(event) => event.target === dialog.current && dialog.current?.close()}
      >
        <div class="inside">
          <Choice
            name="Copy as"
            options={{ sparql: "SPARQL", curl: "curl", python: "Python" }}
            value={form}
            onChange={(value) => {
              setForm(value);
              setDone("");
            }}
          />
          <pre ref={text} tabIndex={0}>
            {all[form]}
          </pre>
          <div class="actions">
            <span role="status">{done}</span>
            <button type="button" onClick={() => dialog.current?.close()}>
              Close
            </button>
            <button type="button" class="main" onClick={() => void copy()}>
              Copy
            </button>
          </div>
        </div>
      </dialog>
    </>
  );
}
