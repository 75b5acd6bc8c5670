/** The SPARQL editor: YASGUI's, with completion of the names and prefixes of this graph. */

import Yasqe from "@zazuko/yasqe";
import { useEffect, useRef } from "preact/hooks";
import { api, type Found } from "./api";
import { said, sparqlName } from "./names";

type Completer = Parameters<typeof Yasqe.registerAutocompleter>[0];
type Token = { string: string; start: number; end: number };

const PREFIXES = ["ks:probability", "ks:known", "ks:reason", "ks:rank", "ks:energy"];
const OURS = [...PREFIXES, "ks:answers ks:new true", "ks:answers ks:top 20", "rdfs:label", "rdf:type"];

/** What is being written: a name behind a colon, in brackets or in quotes, or a plain word. */
const WRITING = /(?:<[^<>{}]*|"[^"]*|[\w-]*:[\w.%-]*|[\w-]+)$/;
const found = new Map<string, Found>();

function writing(yasqe: Yasqe): Token {
  const cursor = yasqe.getDoc().getCursor();
  const before = yasqe.getDoc().getLine(cursor.line).slice(0, cursor.ch);
  const string = WRITING.exec(before)?.[0] ?? "";
  return { string, start: cursor.ch - string.length, end: cursor.ch };
}

const completer = {
  name: "names",
  bulk: false,
  autoShow: true,
  persistenceId: null,
  isValidCompletionPosition: (yasqe: Yasqe) => {
    const { string } = writing(yasqe);
    return string.length > 1 && !/^(?:select|where|filter|limit|order|ask)$/i.test(string);
  },
  preProcessToken: (yasqe: Yasqe, token: object) => {
    const { string, start, end } = writing(yasqe);
    return {
      ...token,
      string,
      start,
      end,
      from: { ch: start },
      to: { ch: end },
      autocompletionString: string,
    };
  },
  get: async (_: Yasqe, token?: { string: string }) => {
    const string = token?.string ?? "";
    const ours = OURS.filter((each) => each.startsWith(string));
    const text = string.replace(/^[:<"]/, "").replaceAll("_", " ");
    if (!text || ours.length) return ours;
    const names = await api.search(text, undefined, 12);
    return names.map((each) => {
      found.set(sparqlName(each.name), each);
      return sparqlName(each.name);
    });
  },
  postprocessHints: (_: Yasqe, hints: { text: string; displayText?: string }[]) =>
    hints.map((hint) => ({ ...hint, render: (element: HTMLElement) => show(element, hint.text) })),
} as unknown as Completer;

function show(element: HTMLElement, text: string): void {
  const thing = found.get(text);
  const kind = document.createElement("small");
  kind.textContent = thing ? (thing.kind === "entity" ? thing.types.join(", ") : thing.kind) : "";
  element.append(thing ? said(thing) : text, " ", kind);
}

Yasqe.registerAutocompleter(completer);

interface Props {
  label: string;
  /** What stands in it at first; it is then the editor that knows its text. */
  initial: string;
  onChange: (text: string) => void;
  onRun: () => void;
}

export function Editor({ label, initial, onChange, onRun }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef({ onChange, onRun });
  latest.current = { onChange, onRun };

  useEffect(() => {
    if (!box.current) return;
    const settings: object = {
      value: initial,
      persistenceId: null,
      showQueryButton: false,
      resizeable: false,
      createShareableLink: undefined,
      consumeShareLink: null,
      prefixCcApi: null,
      autocompleters: ["names", "variables"],
      syntaxErrorCheck: false, // names in angle brackets may hold more than SPARQL allows
      lineWrapping: true,
      lineNumbers: false,
      foldGutter: false,
      gutters: [],
      tabindex: 0,
      viewportMargin: Infinity,
    };
    const made = new Yasqe(box.current, settings);
    made.getInputField().setAttribute("aria-label", label);
    made.on("change", () => latest.current.onChange(made.getValue()));
    const run = () => latest.current.onRun();
    made.addKeyMap({
      "Ctrl-Enter": run,
      "Cmd-Enter": run,
      // the keyboard must be able to leave
      Tab: () => leave(box.current, 1),
      "Shift-Tab": () => leave(box.current, -1),
    });
    return () => made.destroy();
  }, []);

  return <div class="editor" ref={box} />;
}

function leave(box: HTMLElement | null, by: 1 | -1): void {
  const all = [...document.querySelectorAll<HTMLElement>("a, button, input, select, textarea")];
  const outside = all.filter((each) => !box?.contains(each) && each.offsetParent !== null);
  const behind = outside.findIndex(
    (each) => box && box.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  const place = behind === -1 ? outside.length : behind;
  outside[by === 1 ? place : place - 1]?.focus();
}
