/** What people say of predictions. It stays in the browser, until they download it. */

import { useEffect, useState } from "preact/hooks";
import type { Fact } from "./api";
import { Copy, sparqlForms } from "./copy";
import { percent, sparqlName, words } from "./names";
import { Entity, MODEL } from "./ui";

/** What people call the parts of a fact, where they call them something else. */
export type Labels = Record<string, string | null | undefined>;

export interface Verdict extends Fact {
  labels: Labels;
  verdict: "accepted" | "rejected";
  probability: number;
  time: string;
}

const KEY = `verdicts of ${MODEL} at ${location.pathname}`;
const CHANGED = "verdicts-changed";

function load(): Verdict[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]") as Verdict[];
  } catch {
    return [];
  }
}

function save(verdicts: Verdict[]): void {
  localStorage.setItem(KEY, JSON.stringify(verdicts));
  dispatchEvent(new Event(CHANGED));
}

function same(a: Fact, b: Fact): boolean {
  return a.head === b.head && a.relation === b.relation && a.tail === b.tail;
}

export function useVerdicts(): Verdict[] {
  const [verdicts, set] = useState(load);
  useEffect(() => {
    const changed = () => set(load());
    const events = [CHANGED, "storage"]; // the second: another window has changed them
    events.forEach((event) => addEventListener(event, changed));
    return () => events.forEach((event) => removeEventListener(event, changed));
  }, []);
  return verdicts;
}

/** Two buttons; a second click takes a verdict back. */
export function Judge(props: { fact: Fact; probability: number; labels: Labels }) {
  const { fact, probability } = props;
  const names = [fact.head, fact.relation, fact.tail];
  const mine = useVerdicts().find((each) => same(each, fact))?.verdict;
  const judge = (verdict: Verdict["verdict"]) => {
    const others = load().filter((each) => !same(each, fact));
    const { head, relation, tail } = fact;
    const labels = Object.fromEntries(names.map((name) => [name, props.labels[name]]));
    const time = new Date().toISOString();
    const said = { head, relation, tail, labels, verdict, probability, time };
    save(mine === verdict ? others : [...others, said]);
  };
  const claim = names.map((name) => words(name, props.labels[name])).join(" ");
  return (
    <span class="judge">
      <button
        type="button"
        class="yes"
        aria-pressed={mine === "accepted"}
        aria-label={`Accept: ${claim}`}
        title="Accept"
        onClick={() => judge("accepted")}
      >
        ✓
      </button>
      <button
        type="button"
        class="no"
        aria-pressed={mine === "rejected"}
        aria-label={`Reject: ${claim}`}
        title="Reject"
        onClick={() => judge("rejected")}
      >
        ✗
      </button>
    </span>
  );
}

/** A line for each; what would end a cell or a line is written as the two signs for it. */
export function asTsv(verdicts: Verdict[]): string {
  const columns = ["head", "relation", "tail", "verdict", "probability", "time"] as const;
  const signs: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  const cell = (value: string | number) => String(value).replace(/[\\\t\n\r]/g, (c) => signs[c] ?? c);
  const rows = verdicts.map((each) => columns.map((name) => cell(each[name])).join("\t"));
  return [columns.join("\t"), ...rows, ""].join("\n");
}

/** How likely the facts are that have a verdict, asked anew. */
function asQuery(verdicts: Verdict[]): string {
  const rows = verdicts.map((each) =>
    [each.head, each.relation, each.tail].map(sparqlName).concat(`"${each.verdict}"`).join(" "),
  );
  const values = rows.map((row) => `    (${row})\n`).join("");
  const names = "?head ?relation ?tail";
  return `SELECT ${names} ?verdict ?p {\n  VALUES (${names} ?verdict) {\n${values}  }\n  BIND(ks:probability(${names.replaceAll(" ", ", ")}) AS ?p)\n}`;
}

function download(verdicts: Verdict[]): void {
  const link = document.createElement("a");
  const file = new Blob([asTsv(verdicts)], { type: "text/tab-separated-values" });
  link.href = URL.createObjectURL(file);
  link.download = `${MODEL || "model"}-verdicts.tsv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function VerdictsView() {
  const verdicts = useVerdicts();
  return (
    <main>
      <div class="title">
        <h1>Verdicts</h1>
        <span class="actions">
          {!!verdicts.length && <Copy forms={() => sparqlForms(asQuery(verdicts))} />}
          <button type="button" disabled={!verdicts.length} onClick={() => download(verdicts)}>
            Download TSV
          </button>
        </span>
      </div>
      {!verdicts.length && (
        <p class="hint">
          Nothing is accepted or rejected yet. Likely facts of an entity have ✓ and ✗ beside them;
          what you choose stays in this browser.
        </p>
      )}
      {!!verdicts.length && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Fact</th>
                <th>Verdict</th>
                <th class="right">Probability</th>
                <th>Time</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {verdicts.toReversed().map((each) => (
                <tr key={`${each.head}\t${each.relation}\t${each.tail}`}>
                  <td>
                    <Entity name={each.head} label={each.labels[each.head]} />{" "}
                    <em>{words(each.relation, each.labels[each.relation])}</em>{" "}
                    <Entity name={each.tail} label={each.labels[each.tail]} />
                  </td>
                  <td>
                    <span class={`tag ${each.verdict}`}>{each.verdict}</span>
                  </td>
                  <td class="right">{percent(each.probability)}</td>
                  <td>
                    <time dateTime={each.time}>{new Date(each.time).toLocaleString()}</time>
                  </td>
                  <td>
                    <Judge fact={each} probability={each.probability} labels={each.labels} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </main>
  );
}
