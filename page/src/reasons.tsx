/** Why something is likely: as a small graph, and in words beside it. */

import { useState } from "preact/hooks";
import { api, type Edge, type Explanation, type Fact, type FactReasons, type PathGroup } from "./api";
import { Graph, type Link, type Node } from "./graph";
import { energy, percent, words } from "./names";
import { go, toEntity } from "./route";
import { Entity, Show, useAsked } from "./ui";

const FIRST = 3;

/** Collects nodes and links, each once. */
export class Sketch {
  private readonly nodesById = new Map<string, Node>();
  private readonly linksById = new Map<string, Link>();

  node(
    name: string,
    label: string | null | undefined,
    role?: Node["role"],
    column?: number,
  ): void {
    const had = this.nodesById.get(name);
    const text = had && had.text !== words(name) ? had.text : words(name, label);
    const found = { id: name, text, role: had?.role ?? role, column: had?.column ?? column };
    this.nodesById.set(name, found);
  }

  edge(edge: Edge, kind: Link["kind"] = edge.known ? "known" : "predicted", arc = false): void {
    this.node(edge.head, edge.head_label);
    this.node(edge.tail, edge.tail_label);
    const id = `${edge.head}\t${edge.relation}\t${edge.tail}`;
    const claim = words(edge.relation, edge.relation_label);
    const shown = kind === "faint" ? [numbers(edge)] : [claim, numbers(edge)];
    const text = shown.filter(Boolean).join("\n");
    if (!this.linksById.has(id)) {
      this.linksById.set(id, { id, from: edge.head, to: edge.tail, text, kind, arc });
    }
  }

  link(from: string, to: string, text: string, kind: Link["kind"]): void {
    const id = `${from}\t${to}\t${text}`;
    this.linksById.set(id, { id, from, to, text, kind });
  }

  get nodes(): Node[] {
    return [...this.nodesById.values()];
  }

  get links(): Link[] {
    return [...this.linksById.values()];
  }
}

function numbers(edge: Edge): string {
  const cost = edge.energy === null ? "" : energy(edge.energy);
  if (edge.known || edge.probability === null) return cost;
  return [percent(edge.probability), cost].filter(Boolean).join(" · ");
}

export function Legend() {
  return (
    <p class="legend">
      Solid edges are known, dashed ones predicted. The numbers are probability and energy; lower
      energy is better.
    </p>
  );
}

/** The reasons for one answer: witnesses, runners-up, and what every edge costs. */
export function sketchAnswer(why: Explanation, runnersUp: boolean, into = new Sketch()): Sketch {
  for (const edge of why.edges) into.edge(edge);
  for (const part of why.against) for (const edge of part.edges) into.edge(edge, "negated");
  if (!runnersUp) return into;
  for (const unknown of why.unknowns) {
    const [best, ...others] = unknown.candidates;
    if (!best) continue;
    into.node(best.name, best.label, "witness");
    for (const other of others.slice(0, 3)) {
      into.node(other.name, other.label, "other");
      const chance = other.probability === undefined ? "" : percent(other.probability);
      into.link(best.name, other.name, `or ${chance}`.trim(), "faint");
    }
  }
  return into;
}

export function AnswerReasons({ why }: { why: Explanation }) {
  const sketch = sketchAnswer(why, true);
  return (
    <div class="reasons">
      <Graph
        label={`Reasons: ${why.sentences.join("; ")}`}
        nodes={sketch.nodes}
        links={sketch.links}
        onNode={(name) => go(toEntity(name))}
      />
      <Legend />
      <ul class="sentences">
        {why.sentences.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </div>
  );
}

/** The reasons for a single fact: what the graph knows between its ends, path by path. */
export function FactWhy({ fact, asked }: { fact: Fact; asked: "head" | "tail" }) {
  const found = useAsked(() => api.fact(fact, asked), [fact.head, fact.relation, fact.tail]);
  return (
    <div class="reasons">
      <Show of={found} as={(reasons) => <Paths reasons={reasons} />} />
    </div>
  );
}

function Paths({ reasons }: { reasons: FactReasons }) {
  const [at, setAt] = useState(0);
  const [all, setAll] = useState(false);
  const { fact, groups } = reasons;
  const sketch = new Sketch();
  sketch.node(fact.head, fact.head_label, "end", 0);
  sketch.node(fact.tail, fact.tail_label, "end", 2);
  const group = groups[at];
  group?.paths.forEach((path, place) => {
    for (const edge of path) {
      for (const [name, label] of [
        [edge.head, edge.head_label],
        [edge.tail, edge.tail_label],
      ] as const) {
        sketch.node(name, label, place ? "other" : "witness", 1);
      }
      sketch.edge(edge, place ? "faint" : undefined);
    }
  });
  sketch.edge(fact, undefined, fact.head !== fact.tail);
  const claim = words(fact.relation, fact.relation_label);
  return (
    <>
      <Graph
        label={`Paths from ${words(fact.head, fact.head_label)} to ${words(fact.tail, fact.tail_label)}`}
        nodes={sketch.nodes}
        links={sketch.links}
        onNode={(name) => go(toEntity(name))}
      />
      <Legend />
      {group && <Via group={group} fact={fact} />}
      <div class="paths">
        {!groups.length && <p class="hint">No known path of one or two steps joins the two.</p>}
        {groups.slice(0, all ? undefined : FIRST).map((each, place) => (
          <button
            type="button"
            key={place}
            aria-pressed={place === at}
            onClick={() => setAt(place)}
          >
            <span class="steps">
              <Steps group={each} />
            </span>
            <small>
              {each.count} {each.count === 1 ? "path" : "paths"}
              {reasons.facts > 0 &&
                `. Of ${reasons.facts} facts of “${claim}” ${each.facts_with} have such a path, of ${reasons.others} other pairs ${each.others_with}.`}
            </small>
          </button>
        ))}
        {groups.length > FIRST && !all && (
          <button type="button" class="plain" onClick={() => setAll(true)}>
            {groups.length - FIRST} more kinds of paths
          </button>
        )}
      </div>
    </>
  );
}

/** The entities in the middle of the paths that are drawn, for whoever cannot click in the drawing. */
function Via({ group, fact }: { group: PathGroup; fact: Edge }) {
  const middle = new Map<string, string | null>();
  for (const { head, head_label, tail, tail_label } of group.paths.flat()) {
    middle.set(head, head_label).set(tail, tail_label);
  }
  middle.delete(fact.head);
  middle.delete(fact.tail);
  if (!middle.size) return null;
  return (
    <p class="via">
      over{" "}
      {[...middle].map(([name, label]) => (
        <Entity key={name} name={name} label={label} />
      ))}
    </p>
  );
}

function Steps({ group }: { group: PathGroup }) {
  return (
    <>
      {group.steps.map((step, place) => (
        <span key={place} class={step.forwards ? "step" : "step back"}>
          {step.forwards
            ? `${words(step.relation, step.label)} →`
            : `← ${words(step.relation, step.label)}`}
        </span>
      ))}
    </>
  );
}
