/** Where one starts: what the model knows, and where to look first. */

import { type Card, type Relation, type Schema, api } from "./api";
import { Copy, sparqlForms } from "./copy";
import { sparqlName, words } from "./names";
import { go, toAsk, toEntity } from "./route";
import { Search } from "./search";
import { MODEL, Show, useAsked } from "./ui";

const MOST = 12;
const COUNTS = `SELECT ?relation (COUNT(*) AS ?facts) { ?x ?relation ?y }
GROUP BY ?relation ORDER BY DESC(?facts)`;

export function Home() {
  const both = useAsked(() => Promise.all([api.card(), api.schema()]), []);
  return (
    <main class="home">
      <h1>What is missing from {MODEL}?</h1>
      <p class="lead">
        A knowledge graph never holds everything. Look at what is known, see what is likely missing
        and why, and ask.
      </p>
      <Search
        label="Find an entity"
        placeholder="Find an entity by name …"
        autofocus
        onPick={(found) => go(toEntity(found.name))}
      />
      <Show of={both} as={([card, schema]) => <Overview card={card} schema={schema} />} />
    </main>
  );
}

/** The relations as people know them: one may join several pairs of types. */
function byName(schema: Schema): Relation[] {
  const found = new Map<string, Relation>();
  for (const each of schema.relations) {
    const facts = each.facts + (found.get(each.name)?.facts ?? 0);
    found.set(each.name, { ...each, facts });
  }
  return [...found.values()].sort((a, b) => b.facts - a.facts);
}

function Overview({ card, schema }: { card: Card; schema: Schema }) {
  const relations = byName(schema);
  const facts = relations.reduce((sum, each) => sum + each.facts, 0);
  const numbers: [string, string][] = [
    [Number(card["data"]?.["entities"] ?? 0).toLocaleString("en"), "entities"],
    [facts.toLocaleString("en"), "known facts"],
    [relations.length.toLocaleString("en"), "relations"],
    [schema.types.length.toLocaleString("en"), schema.types.length === 1 ? "type" : "types"],
  ];
  return (
    <>
      <dl class="numbers">
        {numbers.map(([number, text]) => (
          <div key={text}>
            <dt>{text}</dt>
            <dd>{number}</dd>
          </div>
        ))}
      </dl>
      <section>
        <div class="title">
          <h2>Relations</h2>
          <Copy forms={() => sparqlForms(COUNTS)} />
        </div>
        <ul class="cloud">
          {relations.slice(0, MOST).map((each) => (
            <li key={each.name}>
              <a href={toAsk(`SELECT ?x ?y { ?x ${sparqlName(each.name)} ?y } LIMIT 20`)}>
                {words(each.name, each.label)}
              </a>
              <small>{each.facts.toLocaleString("en")}</small>
            </li>
          ))}
        </ul>
        {relations.length > MOST && <p class="hint">and {relations.length - MOST} more</p>}
      </section>
    </>
  );
}
