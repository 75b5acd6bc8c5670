/** Names as people read them, and as SPARQL writes them. */

import type { Term, Thing } from "./api";

const IRI = /^(?:[A-Za-z][A-Za-z0-9+.-]*:\/\/\S*|urn:\S+)$/;
const NAMESPACE = "urn:name:";

/** The label, or else the last part of an IRI, without underscores. */
export function words(name: string, label?: string | null): string {
  if (label) return label;
  let text = name;
  if (IRI.test(text)) {
    const last = text.replace(/[/#]+$/, "").split(/[/#:]/).at(-1);
    text = decoded(last ?? "") || text;
  }
  return text.replaceAll("_", " ").trim() || name;
}

/** The labels of things by their names. */
export function labelsOf(things: Thing[]): Record<string, string | null> {
  return Object.fromEntries(things.map(({ name, label }) => [name, label]));
}

export function said(thing: Thing): string {
  return words(thing.name, thing.label);
}

/** A name as a SPARQL query takes it. */
export function sparqlName(name: string): string {
  if (/^\w[\w-]*$/.test(name)) return `:${name}`;
  if (/^[^\s=<>\\][^<>\\\r\n]*$/.test(name)) return `<${name}>`;
  return `<${encodeURIComponent(name)}>`;
}

/** The name that an IRI of a result stands for. */
export function nameOf(term: Term): string {
  if (term.type !== "uri" || !term.value.startsWith(NAMESPACE)) return term.value;
  return decoded(term.value.slice(NAMESPACE.length));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function percent(probability: number): string {
  const shown = 100 * probability;
  if (shown > 0 && shown < 0.1) return "<0.1 %";
  return `${shown.toFixed(shown < 10 ? 1 : 0)} %`;
}

/** An energy with as many digits as tell it from others. */
export function energy(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) < 0.01 || Math.abs(value) >= 1e5 ? value.toExponential(1) : value.toFixed(2);
}
