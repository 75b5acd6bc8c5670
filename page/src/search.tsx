/** Finding an entity as one types: a combobox that works from the keyboard. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api, type Found } from "./api";
import { labelsOf, said, words } from "./names";

interface Props {
  label: string;
  placeholder: string;
  onPick: (found: Found) => void;
  shortcut?: string;
  autofocus?: boolean;
}

export function Search({ label, placeholder, onPick, shortcut, autofocus }: Props) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[] | null>(null);
  const [at, setAt] = useState(0);
  const [problem, setProblem] = useState("");
  const [types, setTypes] = useState<Record<string, string | null>>({});
  const box = useRef<HTMLInputElement>(null);
  const id = useId();

  useEffect(() => {
    api.schema().then(
      (schema) => setTypes(labelsOf(schema.types)),
      () => undefined, // names will do
    );
  }, []);

  useEffect(() => {
    if (!text.trim()) {
      setFound(null);
      return;
    }
    const stop = new AbortController();
    api.search(text, "entity", 12, stop.signal).then(
      (names) => {
        setFound(names);
        setAt(0);
        setProblem("");
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setProblem(String(error instanceof Error ? error.message : error));
      },
    );
    return () => stop.abort();
  }, [text]);

  useEffect(() => {
    if (autofocus) box.current?.focus();
    if (!shortcut) return;
    const pressed = (event: KeyboardEvent) => {
      const typing = (event.target as HTMLElement).closest("input, textarea, select, .CodeMirror");
      if (event.key === shortcut && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        box.current?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  const pick = (one: Found | undefined) => {
    if (!one) return;
    setText("");
    setFound(null);
    onPick(one);
  };
  const keys = (event: KeyboardEvent) => {
    const last = (found?.length ?? 0) - 1;
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, last));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") pick(found?.[at]);
    else if (event.key === "Escape") setText("");
    else return;
    event.preventDefault();
  };
  const open = found !== null && text.trim() !== "";
  return (
    <div class="search">
      <input
        ref={box}
        type="search"
        role="combobox"
        list={undefined}
        aria-label={label}
        aria-expanded={open}
        aria-controls={id}
        aria-activedescendant={open && found.length ? `${id}-${at}` : undefined}
        aria-autocomplete="list"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={keys}
        onBlur={() => setFound(null)}
      />
      {shortcut && <kbd aria-hidden="true">{shortcut}</kbd>}
      {open && (
        <ul id={id} role="listbox" aria-label={label}>
          {found.map((one, place) => (
            <li
              key={one.name}
              id={`${id}-${place}`}
              role="option"
              aria-selected={place === at}
              // before the box loses the focus, which closes the list
              onMouseDown={(event) => {
                event.preventDefault();
                pick(one);
              }}
            >
              <span>{said(one)}</span>
              <small>{one.types.map((type) => words(type, types[type])).join(", ")}</small>
            </li>
          ))}
          {!found.length && <li class="none">Nothing is called like that.</li>}
        </ul>
      )}
      {problem && <p role="alert">{problem}</p>}
    </div>
  );
}
