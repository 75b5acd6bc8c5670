/** Answers, as a table and as a graph. */

import { useState } from "preact/hooks";
import type { Answers, Explanation, SparqlResult, Term } from "./api";
import { Graph } from "./graph";
import { nameOf, words } from "./names";
import { AnswerReasons, Legend, Sketch, sketchAnswer } from "./reasons";
import { go, toEntity } from "./route";
import { Bar, Entity } from "./ui";

const DRAWN = 12;

export function Verdict({ verdict }: { verdict: NonNullable<Answers["verdict"]> }) {
  return (
    <p class="verdict" role="status">
      <strong>{verdict.holds ? "Yes" : "No"}</strong>
      <Bar probability={verdict.probability} known={verdict.known} />
    </p>
  );
}

/** How far to trust the answers, and what else a careful reader should know. */
function Notes({ found }: { found: Answers }) {
  const notes = [found.trust, ...found.notes].filter(Boolean);
  return (
    <>
      {notes.map((note) => (
        <p class="hint" key={note}>
          {note}
        </p>
      ))}
    </>
  );
}

export function AnswerTable({ found }: { found: Answers }) {
  const [open, setOpen] = useState<number | null>(null);
  if (!found.answers.length) return <p class="hint">There are no answers.</p>;
  const width = found.variables.length + 3;
  return (
    <>
      <div class="scroll">
        <table class="answers">
          <thead>
            <tr>
              <th class="right">#</th>
              {found.variables.map((name) => (
                <th key={name}>?{name}</th>
              ))}
              <th>Probability</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {found.answers.flatMap((answer, place) => {
              const why = found.explanations[place];
              const rows = [
                <tr key={place}>
                  <td class="right">{answer.rank}</td>
                  {found.variables.map((name) => (
                    <td key={name}>{answer.values[name] && <Entity {...answer.values[name]} />}</td>
                  ))}
                  <td>
                    <Bar probability={answer.probability} known={answer.known} />
                  </td>
                  <td>
                    {why && (
                      <button
                        type="button"
                        class="plain"
                        aria-expanded={open === place}
                        onClick={() => setOpen(open === place ? null : place)}
                      >
                        Why?
                      </button>
                    )}
                  </td>
                </tr>,
              ];
              if (why && open === place) {
                rows.push(
                  <tr key={`${place} why`} class="unfolded">
                    <td colSpan={width}>
                      <AnswerReasons why={why} />
                    </td>
                  </tr>,
                );
              }
              return rows;
            })}
          </tbody>
        </table>
      </div>
      <Notes found={found} />
    </>
  );
}

/** The reasons for the best answers in one graph; those that take one path lie together. */
export function AnswerGraph({ found }: { found: Answers }) {
  if (!found.answers.length) return <p class="hint">There are no answers.</p>;
  const sketch = new Sketch();
  const byPath = new Map<string, Explanation[]>();
  for (const why of found.explanations.slice(0, DRAWN)) {
    const path = why.edges.map((edge) => edge.relation).join(" ");
    byPath.set(path, [...(byPath.get(path) ?? []), why]);
  }
  for (const answer of found.answers.slice(0, DRAWN)) {
    for (const { name, label } of Object.values(answer.values)) sketch.node(name, label, "end");
  }
  for (const group of byPath.values()) for (const why of group) sketchAnswer(why, false, sketch);
  return (
    <>
      <Graph
        label="The answers and the reasons for them"
        nodes={sketch.nodes}
        links={sketch.links}
        onNode={(name) => go(toEntity(name))}
      />
      <Legend />
      <Notes found={found} />
    </>
  );
}

function Cell({ term }: { term: Term | undefined }) {
  if (!term) return null;
  return term.type === "uri" ? <Entity name={nameOf(term)} /> : <>{term.value}</>;
}

function asRows(found: SparqlResult): { columns: string[]; rows: (Term | undefined)[][] } {
  if ("triples" in found) return { columns: ["subject", "predicate", "object"], rows: found.triples };
  if ("boolean" in found) return { columns: [], rows: [] };
  const columns = found.head.vars;
  const rows = found.results.bindings.map((row) => columns.map((name) => row[name]));
  return { columns: columns.map((name) => `?${name}`), rows };
}

const MOST_ROWS = 500;

export function SparqlTable({ found }: { found: SparqlResult }) {
  const { columns, rows } = asRows(found);
  if (!rows.length) return <p class="hint">There are no rows.</p>;
  return (
    <>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              {columns.map((name) => (
                <th key={name}>{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST_ROWS).map((row, place) => (
              <tr key={place}>
                {row.map((term, column) => (
                  <td key={column}>
                    <Cell term={term} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > MOST_ROWS && (
        <p class="hint">
          The first {MOST_ROWS} of {rows.length.toLocaleString("en")} rows.
        </p>
      )}
    </>
  );
}

const MOST_LINKS = 60;

/** Triples as edges; of rows, each value joined with the next one of its row. */
export function SparqlGraph({ found }: { found: SparqlResult }) {
  const sketch = new Sketch();
  const draw = (from: Term, to: Term, text: string) => {
    sketch.node(nameOf(from), null);
    sketch.node(nameOf(to), null);
    sketch.link(nameOf(from), nameOf(to), text, "known");
  };
  if ("triples" in found) {
    for (const [head, relation, tail] of found.triples.slice(0, MOST_LINKS)) {
      draw(head, tail, words(nameOf(relation)));
    }
  } else {
    const { rows } = asRows(found);
    for (const row of rows.slice(0, MOST_LINKS)) {
      const terms = row.filter((term): term is Term => term?.type === "uri");
      if (terms.length === 1 && terms[0]) sketch.node(nameOf(terms[0]), null);
      terms.slice(1).forEach((term, place) => draw(terms[place] as Term, term, ""));
    }
  }
  if (!sketch.nodes.length) return <p class="hint">Nothing in the rows is an entity.</p>;
  return (
    <Graph
      label="The rows as a graph"
      nodes={sketch.nodes}
      links={sketch.links}
      onNode={(name) => go(toEntity(name))}
    />
  );
}
