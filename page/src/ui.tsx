/** Small parts that all views share. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { percent, words } from "./names";
import { toEntity } from "./route";

export const MODEL = document.querySelector<HTMLMetaElement>('meta[name="model"]')?.content ?? "";

/** How far a request has come. */
export type Asked<T> =
  | { state: "waiting" }
  | { state: "done"; value: T }
  | { state: "failed"; error: string };

/** What a promise gives, asked again when something that it depends on changes. */
export function useAsked<T>(make: () => Promise<T>, on: unknown[]): Asked<T> {
  const [asked, set] = useState<Asked<T>>({ state: "waiting" });
  useEffect(() => {
    let current = true;
    set({ state: "waiting" });
    make().then(
      (value) => current && set({ state: "done", value }),
      (error: unknown) => current && set({ state: "failed", error: sentence(error) }),
    );
    return () => {
      current = false;
    };
  }, on);
  return asked;
}

export function sentence(error: unknown): string {
  return error instanceof Problem ? error.message : `The page has a bug: ${String(error)}`;
}

export function Waiting() {
  return (
    <p class="waiting" role="status">
      <span class="spinner" aria-hidden="true" /> One moment …
    </p>
  );
}

export function Failed({ error, children }: { error: string; children?: ComponentChildren }) {
  return (
    <div class="problem" role="alert">
      <p>{error}</p>
      {children}
    </div>
  );
}

/** What a request gives, or how it stands. */
export function Show<T>({ of, as }: { of: Asked<T>; as: (value: T) => JSX.Element }) {
  if (of.state === "waiting") return <Waiting />;
  if (of.state === "failed") return <Failed error={of.error} />;
  return as(of.value);
}

/** How likely something is: solid where it is known, dashed where it is predicted. */
export function Bar({ probability, known }: { probability: number | null; known?: boolean | null }) {
  const fill = useRef<HTMLSpanElement>(null);
  const share = known ? 1 : (probability ?? 0);
  useEffect(() => {
    fill.current?.style.setProperty("width", `${100 * share}%`);
  });
  const text = known ? "known" : probability === null ? "predicted" : percent(probability);
  return (
    <span class={known ? "chance known" : "chance predicted"}>
      <span class="bar" aria-hidden="true">
        <span ref={fill} />
      </span>
      <span class="number">{text}</span>
    </span>
  );
}

export function Entity({ name, label }: { name: string; label?: string | null }) {
  return (
    <a class="entity" href={toEntity(name)} title={name}>
      {words(name, label)}
    </a>
  );
}

/** Buttons of which one is chosen. */
export function Choice<T extends string>(props: {
  name: string;
  options: Record<T, string>;
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div class="choice" role="radiogroup" aria-label={props.name}>
      {(Object.entries(props.options) as [T, string][]).map(([value, text]) => (
        <label key={value}>
          <input
            type="radio"
            name={props.name}
            checked={value === props.value}
            onChange={() => props.onChange(value)}
          />
          <span>{text}</span>
        </label>
      ))}
    </div>
  );
}

export function Check(props: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  children: ComponentChildren;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.checked}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      {props.children}
    </label>
  );
}
