/** Asking in SPARQL: an editor, and the answers as a table and as a graph. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Answers, type SparqlResult, api } from "./api";
import { Copy, type Forms, curlJson, loading, python, sparqlForms } from "./copy";
import { Editor } from "./editor";
import { go, toAsk, toDraw } from "./route";
import { AnswerGraph, AnswerTable, SparqlGraph, SparqlTable, Verdict } from "./results";
import { type Asked, Check, Choice, Failed, Waiting, sentence } from "./ui";

export type Mode = "predicted" | "facts";
export type Outcome = { mode: "predicted"; value: Answers } | { mode: "facts"; value: SparqlResult };

const MODES = { predicted: "Known and likely", facts: "Facts, all of SPARQL" };
const TOP = 20;
const KEPT = "question";

/** Ask, and drop the answer to a question that another one has replaced. */
export function useAnswers() {
  const [asked, set] = useState<Asked<Outcome> | null>(null);
  const stop = useRef(new AbortController());
  const ask = (query: string, mode: Mode, fresh: boolean) => {
    stop.current.abort();
    const mine = (stop.current = new AbortController());
    set({ state: "waiting" });
    const done: Promise<Outcome> =
      mode === "predicted"
        ? api
            .answers({ query, top: TOP, new: fresh, explain: true }, mine.signal)
            .then((value) => ({ mode, value }))
        : api.sparql(query, mine.signal).then((value) => ({ mode, value }));
    done.then(
      (value) => !mine.signal.aborted && set({ state: "done", value }),
      (error: unknown) =>
        !mine.signal.aborted && set({ state: "failed", error: sentence(error) }),
    );
  };
  useEffect(() => () => stop.current.abort(), []);
  return { asked, ask };
}

export function questionForms(query: string, mode: Mode, fresh: boolean): Forms {
  if (mode === "facts") return sparqlForms(query);
  const more = fresh ? ", new=True" : "";
  return {
    sparql: query,
    curl: curlJson("api/answers", { query, top: TOP, new: fresh, explain: true }),
    python: `${loading}\nfound = model.answer(${python(query)}, top=${TOP}${more}, explain=True)\nprint(found)`,
  };
}

export function AskView({ query }: { query: string | null }) {
  const [text, setText] = useState(query ?? sessionStorage.getItem(KEPT) ?? "SELECT ?x ?y {\n  \n}");
  const [mode, setMode] = useState<Mode>("predicted");
  const [fresh, setFresh] = useState(false);
  const { asked, ask } = useAnswers();
  const run = (as = mode) => {
    sessionStorage.setItem(KEPT, text);
    history.replaceState(null, "", toAsk(text));
    ask(text, as, fresh);
  };
  useEffect(() => {
    if (query !== null) ask(query, mode, fresh);
  }, []);
  const other = mode === "predicted" ? "facts" : "predicted";
  return (
    <main>
      <div class="title">
        <h1>Ask</h1>
        <span class="actions">
          <button type="button" onClick={() => go(toDraw(text))}>
            Draw it
          </button>
          <Copy forms={() => questionForms(text, mode, fresh)} />
        </span>
      </div>
      <Editor label="The question in SPARQL" initial={text} onChange={setText} onRun={run} />
      <div class="controls">
        <Choice name="Answers from" options={MODES} value={mode} onChange={setMode} />
        {mode === "predicted" && (
          <Check checked={fresh} onChange={setFresh}>
            only what no fact says
          </Check>
        )}
        <button type="button" class="main" onClick={() => run()}>
          Ask <kbd>Ctrl ↵</kbd>
        </button>
      </div>
      {asked?.state === "failed" && (
        <Failed error={asked.error}>
          <button
            type="button"
            onClick={() => {
              setMode(other);
              run(other);
            }}
          >
            Ask for “{MODES[other]}”
          </button>
        </Failed>
      )}
      <Outcomes asked={asked} />
    </main>
  );
}

export function Outcomes({ asked }: { asked: Asked<Outcome> | null }) {
  const [shape, setShape] = useState<"table" | "graph">("table");
  if (asked === null || asked.state === "failed") return null;
  if (asked.state === "waiting") return <Waiting />;
  const { mode, value } = asked.value;
  if (mode === "predicted" && value.verdict) return <Verdict verdict={value.verdict} />;
  if (mode === "facts" && "boolean" in value) {
    return <p class="verdict">{value.boolean ? "Yes" : "No"}</p>;
  }
  return (
    <section class="results" aria-label="Answers">
      <Choice
        name="Show as"
        options={{ table: "Table", graph: "Graph" }}
        value={shape}
        onChange={setShape}
      />
      {mode === "predicted" ? (
        shape === "table" ? (
          <AnswerTable found={value} />
        ) : (
          <AnswerGraph found={value} />
        )
      ) : shape === "table" ? (
        <SparqlTable found={value} />
      ) : (
        <SparqlGraph found={value} />
      )}
    </section>
  );
}
