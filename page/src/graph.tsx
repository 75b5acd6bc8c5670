/** A small graph, drawn by cytoscape. Its colours are those of the style sheet. */

import cytoscape, {
  type Core,
  type ElementDefinition,
  type NodeSingular,
  type StylesheetJson,
} from "cytoscape";
import dagre from "cytoscape-dagre";
import { useEffect, useRef } from "preact/hooks";

cytoscape.use(dagre);
cytoscape.warnings(false); // of edges whose ends lie on each other until they are arranged

const NARROW = 560;

/** How wide a node's text may be in a drawing of some width. */
const widest = (room: number) => (room < NARROW ? 96 : 160);

export interface Node {
  id: string;
  text: string;
  /** What an entity is in a drawing: an end of what is asked, a witness, a runner-up, a variable. */
  role?: "end" | "witness" | "other" | "variable" | "target";
  /** Where it stands from left to right; where nodes say so, nothing else arranges them. */
  column?: number;
}

export interface Link {
  id: string;
  from: string;
  to: string;
  text: string;
  kind: "known" | "predicted" | "faint" | "negated";
  /** Whether it goes in an arc over what lies between its ends. */
  arc?: boolean;
}

interface Props {
  label: string;
  nodes: Node[];
  links: Link[];
  direction?: "LR" | "TB";
  onNode?: (id: string) => void;
  onLink?: (id: string) => void;
  selected?: string[];
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function styles(): StylesheetJson {
  const [ink, soft, line, back, accent, wash, bad] = [
    "ink",
    "soft",
    "line",
    "card",
    "accent",
    "wash",
    "bad",
  ].map(colour) as [string, string, string, string, string, string, string];
  const font = getComputedStyle(document.body).fontFamily;
  return [
    {
      selector: "node",
      style: {
        label: "data(text)",
        shape: "round-rectangle",
        width: "data(width)",
        height: "data(height)",
        "background-color": back,
        "border-width": 1,
        "border-color": line,
        color: ink,
        "font-family": font,
        "font-size": 13,
        "text-valign": "center",
        "text-wrap": "wrap",
        "text-max-width": "data(most)",
      } as never,
    },
    { selector: ".end", style: { "background-color": wash, "border-color": accent } },
    {
      selector: ".other",
      style: {
        color: soft,
        "border-style": "dashed",
        "border-color": soft,
        "border-opacity": 0.5,
      },
    },
    { selector: ".variable", style: { "border-style": "dashed", "border-color": soft } },
    {
      selector: ".target",
      style: { "background-color": accent, "border-color": accent, color: back },
    },
    {
      selector: "edge",
      style: {
        label: "data(text)",
        width: 1.5,
        "curve-style": "bezier",
        "line-color": soft,
        "target-arrow-color": soft,
        "target-arrow-shape": "triangle",
        "arrow-scale": 0.9,
        color: ink,
        "font-family": font,
        "font-size": 11,
        "text-wrap": "wrap",
        "text-background-color": back,
        "text-background-opacity": 0.92,
        "text-background-padding": "2px",
      },
    },
    {
      selector: ".predicted",
      style: {
        "line-style": "dashed",
        "line-color": accent,
        "target-arrow-color": accent,
        width: 2,
      },
    },
    {
      selector: ".arc",
      style: {
        "curve-style": "unbundled-bezier",
        "control-point-distances": "data(arc)",
        "control-point-weights": "0.5",
      } as never,
    },
    {
      selector: ".faint",
      style: {
        "line-style": "dotted",
        "line-opacity": 0.45,
        color: soft,
      },
    },
    {
      selector: ".negated",
      style: { "line-color": bad, "target-arrow-color": bad, "line-style": "dashed" },
    },
    { selector: ".chosen", style: { "border-width": 3, "border-color": accent } },
    { selector: "edge.chosen", style: { width: 3.5, "line-color": accent } },
  ];
}

const pen = document.createElement("canvas").getContext("2d");

/** How much room a text takes, with the lines that it is broken into. */
function size(text: string, most: number): { width: number; height: number; most: number } {
  if (!pen) return { width: most, height: 34, most };
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  let [line, longest, lines] = [0, 0, 1];
  for (const word of text.split(" ")) {
    const width = pen.measureText(`${word} `).width;
    if (line > 0 && line + width > most) {
      lines += 1;
      line = 0;
    }
    line += width;
    longest = Math.max(longest, line);
  }
  return { width: Math.max(longest, 12) + 18, height: 17 * lines + 16, most };
}

const GAP = 18;

/** High enough to pass over what stands in the middle. */
function arcHeight(nodes: Node[], room: number): number {
  const middle = nodes.filter((node) => node.column === 1);
  const taken = middle.map((node) => size(node.text, widest(room)).height + GAP);
  return -(taken.reduce((sum, each) => sum + each, 0) + 48);
}

/** Where the nodes of columns stand, each column in the middle of its height. */
function inColumns(drawn: Core, narrow: boolean): void {
  const columns = new Map<number, NodeSingular[]>();
  drawn.nodes().forEach((node) => {
    const column = node.data("column") as number;
    columns.set(column, [...(columns.get(column) ?? []), node]);
  });
  const inOrder = [...columns.keys()].sort();
  for (const [column, nodes] of columns) {
    const heights = nodes.map((node) => (node.data("height") as number) + GAP);
    let y = -heights.reduce((sum, each) => sum + each, 0) / 2;
    nodes.forEach((node, row) => {
      const height = heights[row] ?? 0;
      node.position({ x: inOrder.indexOf(column) * (narrow ? 150 : 270), y: y + height / 2 });
      y += height;
    });
  }
  drawn.fit(undefined, 16);
}

function elements({ nodes, links }: Props, room: number): ElementDefinition[] {
  return [
    ...nodes.map(({ id, text, role, column }) => ({
      data: { id, text, column, ...size(text, widest(room)) },
      classes: role ?? "",
    })),
    ...links.map(({ id, from, to, text, kind, arc }) => ({
      data: { id: `link ${id}`, source: from, target: to, text, arc: arcHeight(nodes, room) },
      classes: arc ? `${kind} arc` : kind,
    })),
  ];
}

function arrange(drawn: Core, direction: "LR" | "TB"): void {
  const narrow = drawn.width() < NARROW;
  if (drawn.nodes().some((node) => node.data("column") !== undefined)) {
    inColumns(drawn, narrow);
  } else {
    drawn
      .layout({
        name: "dagre",
        rankDir: direction,
        nodeSep: 18,
        edgeSep: 14,
        rankSep: narrow ? 60 : 120,
        fit: true,
        padding: 16,
        animate: false,
      } as never)
      .run();
  }
  if (drawn.zoom() > 1.15) {
    drawn.zoom(1.15);
    drawn.center();
  }
}

export function Graph(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useRef<Core | null>(null);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const core = cytoscape({
      container: box.current,
      style: styles(),
      minZoom: 0.2,
      maxZoom: 2.5,
      boxSelectionEnabled: false,
      autoungrabify: false,
      userZoomingEnabled: false, // the wheel scrolls the page
    });
    drawn.current = core;
    core.on("tap", "node", (event) => latest.current.onNode?.(event.target.id() as string));
    core.on("tap", "edge", (event) =>
      latest.current.onLink?.((event.target.id() as string).slice("link ".length)),
    );
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const restyle = () => core.style(styles());
    scheme.addEventListener("change", restyle);
    const resized = new ResizeObserver(() => {
      core.resize();
      arrange(core, latest.current.direction ?? "LR");
    });
    if (box.current) resized.observe(box.current);
    return () => {
      scheme.removeEventListener("change", restyle);
      resized.disconnect();
      core.destroy();
    };
  }, []);

  const shown = JSON.stringify([props.nodes, props.links]);
  useEffect(() => {
    const core = drawn.current;
    if (!core) return;
    const height = Math.min(900, Math.max(210, 54 * props.nodes.length));
    box.current?.style.setProperty("height", `${height}px`);
    core.resize();
    core.elements().remove();
    core.add(elements(props, core.width()));
    arrange(core, props.direction ?? "LR");
  }, [shown]);

  useEffect(() => {
    const core = drawn.current;
    core?.elements().removeClass("chosen");
    for (const id of props.selected ?? []) core?.getElementById(id).addClass("chosen");
  }, [shown, props.selected]);

  return <div class="graph" ref={box} role="img" aria-label={props.label} />;
}
