/** Where in the page one is: a path behind the #, so that it can be kept as a bookmark. */

import { useEffect, useState } from "preact/hooks";

export interface Place {
  view: string;
  rest: string;
  query: URLSearchParams;
}

export function read(hash: string): Place {
  const [, path = "", query = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const [view = "", ...rest] = path.split("/");
  return { view, rest: safe(rest.join("/")), query: new URLSearchParams(query) };
}

function safe(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function usePlace(): Place {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return read(hash);
}

export const toEntity = (name: string) => `#/entity/${encodeURIComponent(name)}`;
export const toAsk = (query: string) => `#/ask?${new URLSearchParams({ query })}`;
export const toDraw = (query: string) => `#/draw?${new URLSearchParams({ query })}`;

export function go(hash: string): void {
  location.hash = hash;
}
