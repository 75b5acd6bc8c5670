/** The page: a header, and the view that the address names. */

import "@zazuko/yasqe/build/yasqe.min.css";
import "./frame.css";
import "./explore.css";
import "./asking.css";
import { render } from "preact";
import { AskView } from "./ask";
import { DrawView } from "./draw";
import { EntityView } from "./entity";
import { Home } from "./home";
import { type Place, go, toEntity, usePlace } from "./route";
import { Search } from "./search";
import { MODEL } from "./ui";
import { VerdictsView, useVerdicts } from "./verdicts";

const VIEWS = { "": "Explore", ask: "Ask", draw: "Draw", verdicts: "Verdicts" };

function Header({ place }: { place: Place }) {
  const judged = useVerdicts().length;
  const current = place.view === "entity" ? "" : place.view;
  return (
    <header>
      <a class="brand" href="#/">
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d="M12 22V5M12 22C8 17 5 12 4 6M12 22c4-5 7-10 8-16M8 14h8" />
        </svg>
        <span>{MODEL || "Knowledge Sheaves"}</span>
      </a>
      <nav aria-label="Views">
        {Object.entries(VIEWS).map(([view, text]) => (
          <a key={view} href={`#/${view}`} aria-current={view === current ? "page" : undefined}>
            {text}
            {view === "verdicts" && judged > 0 && <span class="count">{judged}</span>}
          </a>
        ))}
      </nav>
      {place.view !== "" && (
        <Search
          label="Find an entity"
          placeholder="Find …"
          shortcut="/"
          onPick={(found) => go(toEntity(found.name))}
        />
      )}
    </header>
  );
}

function View({ place }: { place: Place }) {
  switch (place.view) {
    case "entity":
      return <EntityView key={place.rest} name={place.rest} />;
    case "ask":
      return <AskView key={place.query.get("query")} query={place.query.get("query")} />;
    case "draw":
      return <DrawView key={place.query.get("query")} query={place.query.get("query")} />;
    case "verdicts":
      return <VerdictsView />;
    default:
      return <Home />;
  }
}

function App() {
  const place = usePlace();
  return (
    <>
      <Header place={place} />
      <View place={place} />
    </>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
