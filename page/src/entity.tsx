/** An entity: what is known of it beside what is likely missing, relation by relation. */

import { useState } from "preact/hooks";
import { api, entityAddress, type EntityPage, type LikelyFact, type Schema } from "./api";
import { Copy, type Forms, here, loading, python, quoted } from "./copy";
import { labelsOf, said, sparqlName, words } from "./names";
import { EMPTY, toSparql } from "./question";
import { toAsk } from "./route";
import { FactWhy } from "./reasons";
import { Bar, Entity, Show, useAsked } from "./ui";
import { Judge, type Labels } from "./verdicts";

const FIRST = 8;
const SHOWN = 30;

interface Group {
  relation: string;
  forwards: boolean;
  known: string[];
  likely: LikelyFact[];
}

function grouped(page: EntityPage): Group[] {
  const groups = new Map<string, Group>();
  const group = (relation: string, forwards: boolean) => {
    const key = `${forwards} ${relation}`;
    const found = groups.get(key) ?? { relation, forwards, known: [], likely: [] };
    groups.set(key, found);
    return found;
  };
  for (const fact of page.facts) {
    if (fact.head === page.name) group(fact.relation, true).known.push(fact.tail);
    else group(fact.relation, false).known.push(fact.head);
  }
  for (const fact of page.likely) group(fact.relation, fact.asked === "tail").likely.push(fact);
  const best = (each: Group) => each.likely[0]?.probability ?? -1;
  return [...groups.values()].sort((a, b) => best(b) - best(a) || b.known.length - a.known.length);
}

export function EntityView({ name }: { name: string }) {
  const both = useAsked(() => Promise.all([api.entity(name, SHOWN), api.schema()]), [name]);
  return (
    <main>
      <Show of={both} as={([page, schema]) => <Page page={page} schema={schema} />} />
    </main>
  );
}

function Page({ page, schema }: { page: EntityPage; schema: Schema }) {
  const relations = labelsOf(schema.relations);
  const types = new Map(schema.types.map((each) => [each.name, each.label]));
  const groups = grouped(page);
  const shown = page.types.filter((type) => type !== "entity");
  return (
    <>
      <div class="title">
        <div>
          <h1>{said(page)}</h1>
          <p class="about">
            {shown.map((type) => (
              <span class="tag" key={type}>
                {words(type, types.get(type))}
              </span>
            ))}
            {said(page) !== page.name && <code>{page.name}</code>}
            <span>
              {page.facts.length} known facts, {page.likely.length} likely missing
            </span>
          </p>
        </div>
        <span class="actions">
          <a class="button" href={toAsk(firstQuestion(page, groups, relations))}>
            Ask about it
          </a>
          <Copy forms={() => forms(page)} />
        </span>
      </div>
      {!groups.length && <p class="hint">Nothing is known of it.</p>}
      {groups.map((group) => (
        <Relation
          key={`${group.forwards} ${group.relation}`}
          page={page}
          group={group}
          label={relations[group.relation] ?? null}
        />
      ))}
    </>
  );
}

/** What the first relation of an entity joins it with. */
function firstQuestion(page: EntityPage, groups: Group[], relations: Labels): string {
  const group = groups.find((each) => each.forwards) ?? groups[0];
  const me = { id: page.name, isVariable: false, label: page.label, types: [] };
  const ends = group?.forwards === false ? ["?x", me.id] : [me.id, "?x"];
  const [head = "", tail = ""] = ends;
  const edges = group ? [{ head, relation: group.relation, tail, negated: false }] : [];
  return toSparql({ ...EMPTY, nodes: [...EMPTY.nodes, me], edges }, relations);
}

function Relation({ page, group, label }: { page: EntityPage; group: Group; label: string | null }) {
  const [all, setAll] = useState(false);
  const known = all ? group.known : group.known.slice(0, FIRST);
  const claim = <strong>{words(group.relation, label)}</strong>;
  return (
    <section class="relation">
      <h2>
        {group.forwards ? (
          <>
            {said(page)} {claim} …
          </>
        ) : (
          <>
            … {claim} {said(page)}
          </>
        )}
      </h2>
      <div class="columns">
        <div>
          <h3>Known</h3>
          <ul class="known">
            {known.map((other) => (
              <li key={other}>
                <Entity name={other} label={page.labels[other]} />
              </li>
            ))}
          </ul>
          {!group.known.length && <p class="hint">Nothing.</p>}
          {group.known.length > FIRST && (
            <button type="button" class="plain" onClick={() => setAll(!all)}>
              {all ? "Fewer" : `All ${group.known.length}`}
            </button>
          )}
        </div>
        <div>
          <h3>Likely missing</h3>
          <ul class="likely">
            {group.likely.map((fact) => (
              <Likely
                key={group.forwards ? fact.tail : fact.head}
                fact={fact}
                labels={{ ...page.labels, [group.relation]: label }}
              />
            ))}
          </ul>
          {!group.likely.length && <p class="hint">Nothing that stands out.</p>}
        </div>
      </div>
    </section>
  );
}

function Likely({ fact, labels }: { fact: LikelyFact; labels: Labels }) {
  const [open, setOpen] = useState(false);
  const other = fact[fact.asked];
  return (
    <li>
      <div class="row">
        <Entity name={other} label={labels[other]} />
        <Bar probability={fact.probability} />
        <button type="button" class="plain why" aria-expanded={open} onClick={() => setOpen(!open)}>
          Why?
        </button>
        <Judge fact={fact} probability={fact.probability} labels={labels} />
      </div>
      {open && <FactWhy fact={fact} asked={fact.asked} />}
    </li>
  );
}

const MOST_BLOCKS = 8;

function forms(page: EntityPage): Forms {
  const name = sparqlName(page.name);
  const sides = (["head", "tail"] as const).flatMap((end) => {
    const mine = page.likely.filter((fact) => fact[end] === page.name);
    return [...new Set(mine.map((fact) => fact.relation))].map((relation) => ({ end, relation }));
  });
  const blocks = sides.slice(0, MOST_BLOCKS).map(({ end, relation }) => {
    const [other, triple] =
      end === "head"
        ? ["?tail", `${name} ${sparqlName(relation)} ?tail`]
        : ["?head", `?head ${sparqlName(relation)} ${name}`];
    return [
      `  { BIND(${name} AS ?${end}) BIND(${sparqlName(relation)} AS ?relation)`,
      `    SERVICE ks:predict { ${triple} . ${other} ks:probability ?p .`,
      "      ks:answers ks:new true ; ks:top 5 } }",
    ].join("\n");
  });
  const known = [
    `  { BIND(${name} AS ?head) ${name} ?relation ?tail }`,
    `  { BIND(${name} AS ?tail) ?head ?relation ${name} }`,
  ];
  const groups = [...known, ...blocks].join("\n  UNION\n");
  return {
    sparql: `SELECT ?head ?relation ?tail ?p {\n${groups}\n}`,
    curl: `curl ${quoted(here(entityAddress(page.name, SHOWN)))}`,
    python: [
      loading,
      ...sides.map(
        ({ end, relation }) =>
          `print(model.predict(${end}=${python(page.name)}, relation=${python(relation)}, new=True))`,
      ),
    ].join("\n"),
  };
}
