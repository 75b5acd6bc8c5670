"""Full SPARQL: every construct, blocks of predictions and odd names, and noise over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from full_cases import Writer
from fuzz.asking import LIMITS, MODELS, asker, facts, odd_facts
from fuzz.mutation import Dice, spoiled, word
from knowledge_sheaves.query import Asker
from knowledge_sheaves.query.full import Sparql

TOKENS = tuple(
    b"SERVICE|SERVICE ks:predict {|SERVICE <http://127.0.0.1:9/> {|SILENT|ks:top|ks:answers|ks:rank"
    b"|ks:probability(|VALUES|UNDEF|GRAPH|FROM <file:///etc/passwd>|LOAD|INSERT|LATERAL|{|}|(|)|[|]"
    b"|<|>|<=|'|\"|'''|\\u0053|\\|#|\n|?x|$x|_:b|@en|^^|1e9|:p0|<p0>|a|*|+|!|-|.|;|,|SELECT"
    b"|BASE <x>|\\u003e|\\U0000007b|PREFIX : <urn:name:>|EXISTS|OPTIONAL|BIND|AS|GROUP BY|ORDER BY"
    b"|LIMIT 3".split(b"|")
)


def block(random: Dice) -> str:
    ends = [random.choice(("?a", "?b", ":p0", ":t1", f"<{word(random)}>")) for _ in range(2)]
    said = random.choice(("", "?a ks:probability ?p ; ks:rank ?n .", "ks:answers ks:top 2 ."))
    return f"SERVICE ks:predict {{ {ends[0]} :likes {ends[1]} . {said} }}"


def question(random: Dice) -> str:
    text = Writer(random.randrange(1 << 30)).text()
    if random.random() < 0.5:
        text = text.replace("ex:", ":")
    if random.random() < 0.6:
        before, brace, after = text.partition("WHERE {")
        text = f"{before}{brace} {block(random)} {after}" if brace else text
    if random.random() < 0.5:
        content = spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS)
        text = content.decode("utf-8", random.choice(("replace", "surrogateescape")))
    return text


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"full {seed}")
    text = question(random)
    (folder / "x.rq").write_bytes(text.encode("utf-8", "surrogatepass"))
    graph = odd_facts() if random.random() < 0.2 else facts(random.random() < 0.3)
    asked = Asker(asker(random.choice(MODELS), graph).model, LIMITS)
    return lambda: list(Sparql(asked).run(text).rows())
