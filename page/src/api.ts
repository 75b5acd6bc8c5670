/** What the server's JSON interface takes and gives. */

export interface Thing {
  name: string;
  label: string | null;
}

export interface Found extends Thing {
  kind: "entity" | "relation" | "type";
  types: string[];
}

export interface Fact {
  head: string;
  relation: string;
  tail: string;
}

export interface LikelyFact extends Fact {
  probability: number;
  asked: "head" | "tail";
}

export interface EntityPage extends Thing {
  types: string[];
  facts: Fact[];
  likely: LikelyFact[];
  labels: Record<string, string>;
}

export interface Relation extends Thing {
  heads: string[];
  tails: string[];
  facts: number;
}

export interface Schema {
  types: (Thing & { entities: number })[];
  relations: Relation[];
}

export type Card = Record<string, Record<string, unknown>>;

export interface Edge extends Fact {
  head_label: string | null;
  relation_label: string | null;
  tail_label: string | null;
  energy: number | null;
  probability: number | null;
  known: boolean;
}

export interface Candidate {
  name: string;
  label?: string;
  probability?: number;
  energy?: number;
}

export interface Explanation {
  sentences: string[];
  probability: number | null;
  energy: number;
  edges: Edge[];
  unknowns: { variable: string; candidates: Candidate[] }[];
  against: (Explanation & { left: number })[];
}

export interface Answer {
  rank: number;
  values: Record<string, Thing>;
  energy: number | null;
  probability: number | null;
  known: boolean | null;
}

export interface Answers {
  form: "select" | "ask";
  variables: string[];
  answers: Answer[];
  solver: string | null;
  notes: string[];
  trust: string;
  explanations: Explanation[];
  verdict: { holds: boolean; known: boolean; probability: number | null } | null;
}

export interface Step {
  relation: string;
  label: string | null;
  forwards: boolean;
}

export interface PathGroup {
  steps: Step[];
  count: number;
  facts_with: number;
  others_with: number;
  paths: Edge[][];
}

export interface FactReasons {
  fact: Edge;
  facts: number;
  others: number;
  groups: PathGroup[];
}

export interface DrawnNode {
  variable: string | null;
  name: string | null;
  label: string | null;
  types: string[];
}

export interface Drawing {
  targets: string[];
  limit: number | null;
  nodes: DrawnNode[];
  edges: { head: number; relation: string; tail: number; negated: boolean }[];
}

/** SPARQL's own results: rows, yes or no, or triples. */
export interface Term {
  type: "uri" | "literal" | "bnode";
  value: string;
}

export type Table = { head: { vars: string[] }; results: { bindings: Record<string, Term>[] } };
export type SparqlResult = Table | { boolean: boolean } | { triples: [Term, Term, Term][] };

/** What went wrong, in the server's words. */
export class Problem extends Error {}

async function read(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  const text = await answer.text();
  let said = text.trim();
  try {
    const body = JSON.parse(text) as { error?: string };
    if (body.error) said = body.error;
  } catch {
    // plain text, as it stands
  }
  throw new Problem(said || `The server answered with status ${answer.status}.`);
}

async function ask(address: string, options: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("The server does not answer: is it still running?");
  }
  return read(answer);
}

async function get<T>(address: string, signal?: AbortSignal): Promise<T> {
  return (await ask(address, { signal })).json() as Promise<T>;
}

async function post<T>(address: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body), signal };
  return (await ask(address, options)).json() as Promise<T>;
}

function address(path: string, parameters: Record<string, string | number>): string {
  const text = Object.entries(parameters).map(([name, value]) => [name, String(value)]);
  return `${path}?${new URLSearchParams(text)}`;
}

export interface Question {
  query: string;
  top: number;
  new: boolean;
  explain: boolean;
}

export const entityAddress = (name: string, top: number) => address("api/entity", { name, top });

export const api = {
  card: () => once("card", () => get<Card>("api/card")),
  schema: () => once("schema", () => get<Schema>("api/schema")),
  search: async (text: string, kind?: string, limit = 10, signal?: AbortSignal) => {
    const more: Record<string, string> = kind ? { kind } : {};
    const asked = address("api/search", { text, limit, ...more });
    return (await get<{ found: Found[] }>(asked, signal)).found;
  },
  entity: (name: string, top: number) => get<EntityPage>(entityAddress(name, top)),
  fact: ({ head, relation, tail }: Fact, asked: "head" | "tail") =>
    post<FactReasons>("api/fact", { head, relation, tail, asked }),
  answers: (question: Question, signal?: AbortSignal) =>
    post<Answers>("api/answers", question, signal),
  drawing: (query: string, signal?: AbortSignal) => post<Drawing>("api/drawing", { query }, signal),
  sparql: async (query: string, signal?: AbortSignal): Promise<SparqlResult> => {
    const headers = {
      "Content-Type": "application/sparql-query",
      Accept: "application/sparql-results+json, application/n-triples;q=0.9",
    };
    const answer = await ask("sparql", { method: "POST", headers, body: query, signal });
    if (answer.headers.get("Content-Type")?.includes("n-triples")) {
      return { triples: readTriples(await answer.text()) };
    }
    return answer.json() as Promise<SparqlResult>;
  },
};

const kept = new Map<string, Promise<unknown>>();

/** What does not change while the page is open is asked for once. */
function once<T>(key: string, make: () => Promise<T>): Promise<T> {
  if (!kept.has(key)) {
    const made = make();
    made.catch(() => kept.delete(key));
    kept.set(key, made);
  }
  return kept.get(key) as Promise<T>;
}

const TERM = String.raw`<([^>]*)>|(_:\S+)|"((?:[^"\\]|\\.)*)"(?:@[\w-]+|\^\^<[^>]*>)?`;

function readTriples(text: string): [Term, Term, Term][] {
  return text
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => [...line.matchAll(new RegExp(TERM, "g"))].slice(0, 3).map(term))
    .filter((terms): terms is [Term, Term, Term] => terms.length === 3);
}

function term([, iri, blank, text]: RegExpMatchArray): Term {
  if (iri !== undefined) return { type: "uri", value: unescaped(iri) };
  if (blank !== undefined) return { type: "bnode", value: blank };
  return { type: "literal", value: unescaped(text ?? "") };
}

function unescaped(text: string): string {
  const known: Record<string, string> = { n: "\n", t: "\t", r: "\r" };
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/gs, (_, u, U, other) => {
    const code = u ?? U;
    return code ? String.fromCodePoint(parseInt(code, 16)) : (known[other] ?? other);
  });
}
