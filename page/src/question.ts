/** A question as a small graph: what the drawing and its text share. */

import type { Drawing, Relation } from "./api";
import { sparqlName, words } from "./names";

export interface QuestionNode {
  /** The variable with its question mark, or the name of the entity. */
  id: string;
  isVariable: boolean;
  label: string | null;
  types: string[];
}

export interface QuestionEdge {
  head: string;
  relation: string;
  tail: string;
  negated: boolean;
}

export interface Question {
  nodes: QuestionNode[];
  edges: QuestionEdge[];
  targets: string[];
  limit: number | null;
}

export const EMPTY: Question = {
  nodes: [{ id: "?x", isVariable: true, label: null, types: [] }],
  edges: [],
  targets: ["?x"],
  limit: null,
};

export function fromDrawing(drawing: Drawing): Question {
  const nodes = drawing.nodes.map(({ variable, name, label, types }) => ({
    id: variable ?? name ?? "",
    isVariable: variable !== null,
    label,
    types,
  }));
  const edges = drawing.edges.map(({ head, relation, tail, negated }) => ({
    head: nodes[head]?.id ?? "",
    relation,
    tail: nodes[tail]?.id ?? "",
    negated,
  }));
  return { nodes, edges, targets: drawing.targets, limit: drawing.limit };
}

type Labels = Record<string, string | null | undefined>;

/** The question as SPARQL; where names say nothing to people, with a remark that does. */
export function toSparql(question: Question, relations: Labels = {}): string {
  const { nodes, edges, targets, limit } = question;
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const term = (id: string) => (byId.get(id)?.isVariable ? id : sparqlName(id));
  const triple = (edge: QuestionEdge) =>
    `${term(edge.head)} ${sparqlName(edge.relation)} ${term(edge.tail)}`;
  const remark = ({ head, relation, tail }: QuestionEdge) => {
    const ends = [byId.get(head), byId.get(tail)];
    if (!relations[relation] && !ends.some((node) => node?.label)) return "";
    const [from, to] = ends.map((node) => (node ? nodeText(node) : ""));
    return ` # ${from} ${words(relation, relations[relation])} ${to}`.replace(/\s+/g, " ");
  };
  const lines = [
    ...edges.filter((edge) => !edge.negated).map((edge) => `${triple(edge)} .${remark(edge)}`),
    ...nodes
      .filter((node) => node.isVariable)
      .flatMap((node) => node.types.map((type) => `${node.id} a ${sparqlName(type)} .`)),
    ...edges
      .filter((edge) => edge.negated)
      .map((edge) => `FILTER NOT EXISTS { ${triple(edge)} }${remark(edge)}`),
  ];
  const rows = lines.map((line) => `  ${line}\n`).join("");
  return `SELECT ${targets.join(" ")} {\n${rows}}${limit === null ? "" : ` LIMIT ${limit}`}`;
}

/** What keeps a drawing from being a question, if anything does. */
export function missing({ edges, targets }: Question): string | null {
  if (!targets.length) return "Choose a variable that is asked for.";
  const positive = edges.filter((edge) => !edge.negated);
  const lost = targets.find((id) => !positive.some(({ head, tail }) => id === head || id === tail));
  return lost ? `Add an edge at ${lost}.` : null;
}

export function freshVariable({ nodes }: Question): string {
  const taken = new Set(nodes.map((node) => node.id));
  const names = ["?x", "?y", "?z", "?u", "?v", "?w"];
  for (let n = 1; ; n += 1) {
    const name = names.find((each) => !taken.has(each)) ?? `?x${n}`;
    if (!taken.has(name)) return name;
  }
}

export function nodeText(node: QuestionNode): string {
  return node.isVariable ? node.id : words(node.id, node.label);
}

type Types = ReadonlySet<string> | null;

/** The types that a node may have by its own word and by the edges at it; null is any. */
function typesOf(question: Question, relations: Relation[], id: string): Types {
  const node = question.nodes.find((each) => each.id === id);
  let found: Types = node?.types.length ? new Set(node.types) : null;
  if (!node?.isVariable) return found;
  for (const edge of question.edges) {
    for (const [end, side] of [
      [edge.head, "heads"],
      [edge.tail, "tails"],
    ] as const) {
      if (end !== id || edge.negated) continue;
      const here = relations.filter((each) => each.name === edge.relation).flatMap((r) => r[side]);
      found = found ? new Set(here.filter((type) => found?.has(type))) : new Set(here);
    }
  }
  return found;
}

/** The relations that the schema allows between two nodes, those with most facts first. */
export function allowed(
  question: Question,
  relations: Relation[],
  head: string,
  tail: string,
): Relation[] {
  const from = typesOf(question, relations, head);
  const to = typesOf(question, relations, tail);
  const fits = (types: Types, names: string[]) => !types || names.some((name) => types.has(name));
  const found = new Map<string, Relation>();
  for (const each of relations.toSorted((a, b) => b.facts - a.facts)) {
    if (fits(from, each.heads) && fits(to, each.tails) && !found.has(each.name)) {
      found.set(each.name, each);
    }
  }
  return [...found.values()];
}
