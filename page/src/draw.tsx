/** A question drawn by hand, for those who write no SPARQL; the text beside it, both ways. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Relation, api } from "./api";
import { Outcomes, questionForms, useAnswers } from "./ask";
import { Copy } from "./copy";
import { Graph } from "./graph";
import { labelsOf, words } from "./names";
import {
  EMPTY,
  type Question,
  type QuestionEdge,
  allowed,
  freshVariable,
  fromDrawing,
  missing,
  nodeText,
  toSparql,
} from "./question";
import { Search } from "./search";
import { go, toAsk } from "./route";
import { Check, Failed, Show, sentence, useAsked } from "./ui";

const PAUSE = 350; // milliseconds without a key, after which a text is read

export function DrawView({ query }: { query: string | null }) {
  const schema = useAsked(() => api.schema(), []);
  return (
    <main>
      <Show of={schema} as={({ relations }) => <Board query={query} relations={relations} />} />
    </main>
  );
}

function Board({ query, relations }: { query: string | null; relations: Relation[] }) {
  const [question, setQuestion] = useState<Question>(EMPTY);
  const [text, setText] = useState(query ?? toSparql(EMPTY));
  const [problem, setProblem] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const [fresh, setFresh] = useState(false);
  const { asked, ask } = useAnswers();
  const reading = useRef(new AbortController());

  const labels = labelsOf(relations);
  const draw = (changed: Question) => {
    reading.current.abort();
    setQuestion(changed);
    setText(toSparql(changed, labels));
    setProblem("");
  };
  const read = (written: string) => {
    reading.current.abort();
    const mine = (reading.current = new AbortController());
    api.drawing(written, mine.signal).then(
      (drawing) => {
        setQuestion(fromDrawing(drawing));
        setProblem("");
        setChosen([]);
      },
      (error: unknown) => !mine.signal.aborted && setProblem(sentence(error)),
    );
  };
  const waiting = useRef(0);
  const write = (written: string) => {
    setText(written);
    clearTimeout(waiting.current);
    waiting.current = window.setTimeout(() => read(written), PAUSE);
  };
  useEffect(() => {
    if (query) read(query);
    return () => clearTimeout(waiting.current);
  }, []);

  const add = (node: Question["nodes"][number]) => {
    const there = question.nodes.some((each) => each.id === node.id);
    if (!there) draw({ ...question, nodes: [...question.nodes, node] });
    setChosen([...chosen.slice(-1), node.id]);
  };
  const lacks = missing(question);
  return (
    <>
      <div class="title">
        <h1>Draw a question</h1>
        <span class="actions">
          <button type="button" onClick={() => draw(EMPTY)}>
            Start again
          </button>
          <button type="button" onClick={() => go(toAsk(text))}>
            Edit as SPARQL
          </button>
          <Copy forms={() => questionForms(text, "predicted", fresh)} />
        </span>
      </div>
      <div class="board">
        <Canvas question={question} labels={labels} chosen={chosen} onChoose={setChosen} />
        <label class="beside">
          <span>In SPARQL, or in short: virus causes ?x</span>
          <textarea
            class="text"
            spellcheck={false}
            value={text}
            onInput={(event) => write(event.currentTarget.value)}
          />
        </label>
      </div>
      {problem && <Failed error={problem} />}
      <div class="parts">
        <Nodes question={question} chosen={chosen} onChange={draw} onChoose={setChosen} />
        <div class="adding">
          <Search
            label="Add an entity"
            placeholder="Add an entity …"
            onPick={({ name, label, types }) => add({ id: name, isVariable: false, label, types })}
          />
          <button
            type="button"
            onClick={() =>
              add({ id: freshVariable(question), isVariable: true, label: null, types: [] })
            }
          >
            Add an unknown
          </button>
        </div>
        <Edges question={question} relations={relations} onChange={draw} />
        <NewEdge
          key={`${question.nodes.length} ${question.edges.length} ${chosen.join("\t")}`}
          question={question}
          relations={relations}
          chosen={chosen}
          onAdd={(edge) => {
            draw({ ...question, edges: [...question.edges, edge] });
            setChosen([]);
          }}
        />
      </div>
      <div class="controls">
        <Check checked={fresh} onChange={setFresh}>
          only what no fact says
        </Check>
        {lacks && <span class="hint">{lacks}</span>}
        <button
          type="button"
          class="main"
          disabled={lacks !== null}
          onClick={() => ask(text, "predicted", fresh)}
        >
          Ask
        </button>
      </div>
      {asked?.state === "failed" && <Failed error={asked.error} />}
      <Outcomes asked={asked} />
    </>
  );
}

function Canvas(props: {
  question: Question;
  labels: Record<string, string | null>;
  chosen: string[];
  onChoose: (ids: string[]) => void;
}) {
  const { question, chosen, onChoose } = props;
  const nodes = question.nodes.map((node) => ({
    id: node.id,
    text: [nodeText(node), ...(node.isVariable ? node.types.map((type) => words(type)) : [])].join(" · "),
    role: !node.isVariable
      ? ("end" as const)
      : question.targets.includes(node.id)
        ? ("target" as const)
        : ("variable" as const),
  }));
  const links = question.edges.map((edge, place) => ({
    id: String(place),
    from: edge.head,
    to: edge.tail,
    text: `${edge.negated ? "not " : ""}${words(edge.relation, props.labels[edge.relation])}`,
    kind: edge.negated ? ("negated" as const) : ("known" as const),
  }));
  return (
    <div class="drawing">
      <Graph
        label={`The question: ${toSparql(question)}`}
        nodes={nodes}
        links={links}
        selected={chosen}
        onNode={(id) => onChoose(pick(chosen, id))}
      />
      <p class="hint">Click two nodes to join them: from the first to the second.</p>
    </div>
  );
}

/** At most two nodes are chosen: where an edge starts and where it ends. */
function pick(chosen: string[], id: string): string[] {
  return chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen.slice(-1), id];
}

function Nodes(props: {
  question: Question;
  chosen: string[];
  onChange: (question: Question) => void;
  onChoose: (ids: string[]) => void;
}) {
  const { question, chosen, onChange, onChoose } = props;
  const remove = (id: string) => {
    onChange({
      ...question,
      nodes: question.nodes.filter((node) => node.id !== id),
      edges: question.edges.filter((edge) => edge.head !== id && edge.tail !== id),
      targets: question.targets.filter((target) => target !== id),
    });
    onChoose(chosen.filter((each) => each !== id));
  };
  const want = (id: string) => {
    const without = question.targets.filter((target) => target !== id);
    const targets = without.length < question.targets.length ? without : [...without, id];
    onChange({ ...question, targets });
  };
  return (
    <ul class="nodes" aria-label="Nodes">
      {question.nodes.map((node) => (
        <li key={node.id} class={question.targets.includes(node.id) ? "wanted" : ""}>
          <button
            type="button"
            class="plain"
            aria-pressed={chosen.includes(node.id)}
            onClick={() => onChoose(pick(chosen, node.id))}
          >
            {nodeText(node)}
          </button>
          {node.isVariable && (
            <Check checked={question.targets.includes(node.id)} onChange={() => want(node.id)}>
              asked for
            </Check>
          )}
          <button
            type="button"
            class="plain"
            aria-label={`Remove ${nodeText(node)}`}
            onClick={() => remove(node.id)}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}

function RelationChoice(props: {
  relations: Relation[];
  value: string;
  label: string;
  onChange: (relation: string) => void;
}) {
  const here = props.relations.some((each) => each.name === props.value);
  return (
    <select
      aria-label={props.label}
      value={props.value}
      onChange={(event) => props.onChange(event.currentTarget.value)}
    >
      {!here && <option value={props.value}>{words(props.value)}</option>}
      {props.relations.map((each) => (
        <option key={each.name} value={each.name}>
          {words(each.name, each.label)}
        </option>
      ))}
    </select>
  );
}

function Edges(props: {
  question: Question;
  relations: Relation[];
  onChange: (question: Question) => void;
}) {
  const { question, relations, onChange } = props;
  const labels = labelsOf(relations);
  const named = new Map(question.nodes.map((node) => [node.id, nodeText(node)]));
  const change = (place: number, edge: QuestionEdge | null) => {
    const edges = question.edges.flatMap((each, n) => (n !== place ? [each] : edge ? [edge] : []));
    onChange({ ...question, edges });
  };
  return (
    <ul class="edges" aria-label="Edges">
      {question.edges.map((edge, place) => {
        const others = { ...question, edges: question.edges.filter((_, n) => n !== place) };
        const relation = words(edge.relation, labels[edge.relation]);
        const claim = `${named.get(edge.head)} ${relation} ${named.get(edge.tail)}`;
        return (
          <li key={place}>
            <span class="from">{named.get(edge.head)}</span>
            <RelationChoice
              label={`Relation of ${claim}`}
              relations={allowed(others, relations, edge.head, edge.tail)}
              value={edge.relation}
              onChange={(relation) => change(place, { ...edge, relation })}
            />
            <span class="to">{named.get(edge.tail)}</span>
            <Check checked={edge.negated} onChange={() => change(place, { ...edge, negated: !edge.negated })}>
              must not hold
            </Check>
            <button
              type="button"
              class="plain"
              aria-label={`Remove ${claim}`}
              onClick={() => change(place, null)}
            >
              ×
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function NewEdge(props: {
  question: Question;
  relations: Relation[];
  chosen: string[];
  onAdd: (edge: QuestionEdge) => void;
}) {
  const { question, relations, chosen } = props;
  const ids = question.nodes.map((node) => node.id);
  const [head, setHead] = useState(chosen[0] ?? ids.at(-1) ?? "");
  const other = ids.findLast((id) => id !== head && id !== chosen[0]) ?? head;
  const [tail, setTail] = useState(chosen[1] ?? other);
  const fitting = allowed(question, relations, head, tail);
  const [wish, setWish] = useState("");
  const relation = fitting.some((each) => each.name === wish) ? wish : (fitting[0]?.name ?? "");
  if (ids.length < 2) return <p class="hint">Add a second node to draw an edge.</p>;
  const nodes = (label: string, value: string, set: (id: string) => void) => (
    <select aria-label={label} value={value} onChange={(event) => set(event.currentTarget.value)}>
      {question.nodes.map((node) => (
        <option key={node.id} value={node.id}>
          {nodeText(node)}
        </option>
      ))}
    </select>
  );
  return (
    <div class="newedge">
      {nodes("From", head, setHead)}
      <RelationChoice label="Relation" relations={fitting} value={relation} onChange={setWish} />
      {nodes("To", tail, setTail)}
      <button
        type="button"
        disabled={!relation}
        onClick={() => props.onAdd({ head, relation, tail, negated: false })}
      >
        Add the edge
      </button>
      {!relation && <span class="hint">The schema has no relation between them.</span>}
    </div>
  );
}
