"""Bad queries: each a clear sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.language.sparql import parse_sparql
from knowledge_sheaves.query.language.sparql_patterns import MOST_EDGES, MOST_PATTERNS
from knowledge_sheaves.query.language.sparql_text import (
    MOST_CHARACTERS,
    MOST_TOKENS,
    MOST_TRIPLES,
)

SYNTAX = {
    "": "The query ends too early (line 1, column 1); is something missing, say a '}'?",
    "hello": "This is not SPARQL from line 1, column 1 on: 'hello'.",
    "SELECT ?x { ?x :friends ?y": (
        "The query ends too early (line 1, column 27); is something missing, say a '}'?"
    ),
    "SELECT ?x {\n\t?x :friends ?y ?z }": "This is not SPARQL from line 2, column 17 on: '?z }'.",
    "SELECT { ?x :friends ?y }": (
        "This is not SPARQL from line 1, column 8 on: '{ ?x :friends ?y }'."
    ),
    "SELECT ?x { ?x :friends ?y } LIMIT many": (
        "This is not SPARQL from line 1, column 30 on: 'LIMIT many'."
    ),
    'SELECT ?x { ?x :likes "Fargo }': "The string that starts at line 1, column 23 does not end.",
    "SELECT ?x { :Julia\\uFFFFFFFF :friends ?x }": (
        "The query has an escape that is no character: Invalid unicode code point: FFFFFFFF."
    ),
    "SELECT ?x { ?x ex:friends ?y }": (
        "The prefix 'ex' (line 1, column 16) is not declared; "
        "write PREFIX ex: <…> before the query."
    ),
}

NAMES = {
    "SELECT ?x { :Julie :friends ?x }": (
        "No entity has the name or label 'Julie'; did you mean 'Julia'?"
    ),
    "SELECT ?x { ?x :frends :Julia }": "There is no relation 'frends'; did you mean 'friends'?",
    "SELECT ?x { ?x :friends/<favourite movie> ?y }": (
        "There is no relation 'favourite movie'; did you mean 'favorite movie'?"
    ),
    'SELECT ?x { ?x <favorite movie> "Solaris" }': (
        "2 entities have the label 'Solaris': ask by name for one of "
        "'Solaris 1972' (Film), 'Solaris 2002' (Film)."
    ),
    "SELECT ?x { VALUES ?x { :Julia :Nobody } ?x :friends ?y }": (
        "No entity has the name or label 'Nobody'."
    ),
    "SELECT ?x { ?x :friends ?y FILTER(?x != :Julja) }": (
        "No entity has the name or label 'Julja'; did you mean 'Julia'?"
    ),
    "SELECT ?x { <http://example.org/Julia> :friends ?x }": (
        "No entity has the name or label 'http://example.org/Julia'."
    ),
    "SELECT ?x { ?x a :Person }": (
        "Who has a type is known, and nothing to predict: add a relation to the query, or ask "
        "the facts alone (sheaves query --facts-only, model.sparql)."
    ),
    "SELECT ?x { ?x :friends ?y . ?x a :Persn }": "Unknown type 'Persn'; did you mean 'Person'?",
    "SELECT ?x { ?x :friends ?y . ?y a :Person }": (
        "?y is asked for by type, which only the one variable that is selected can be: select it, "
        "or write ?y a … around SERVICE ks:predict { … }."
    ),
    "SELECT ?x { ?x :friends ?y FILTER NOT EXISTS { ?x a :Person } }": (
        "A type is asked for as ?x a :Type, outside of UNION, NOT EXISTS and MINUS; for more, "
        "write it around SERVICE ks:predict { … }."
    ),
}

SHAPES = {
    "SELECT ?z { ?x :friends ?y }": "The target ?z occurs in no positive edge of its pattern.",
    "SELECT ?z { ?x :friends ?y MINUS { ?x :likes ?z } }": (
        "The target ?z occurs in no positive edge of its pattern."
    ),
    "SELECT ?y { { ?x :friends ?y } UNION { ?x :friends :Anja } }": (
        "?y has a value in some alternatives of the query only; select variables that occur in "
        "the triples of all of them."
    ),
    "SELECT ?x { ?x :friends :Julia . ?y :friends :Anja }": (
        "The query falls apart: nothing connects ?x with ?y; ask two queries."
    ),
    "SELECT ?x { FILTER NOT EXISTS { ?x :friends ?y } }": (
        "A query needs at least one positive edge: what is only forbidden has no answers."
    ),
    "SELECT ?x { MINUS { ?x :friends :Julia } }": (
        "A query needs at least one positive edge: what is only forbidden has no answers."
    ),
    "SELECT * { :Julia :friends :Sachin }": "A query needs at least one target variable.",
    "ASK {}": "A query needs at least one positive edge: what is only forbidden has no answers.",
    "SELECT ?x { ?x :friends ?y { ?x :likes ?z FILTER(?z != ?y) } }": (
        "FILTER(?z != ?y) speaks of a variable that its group does not bind; move it to the "
        "braces that do."
    ),
    "SELECT ?x { ?x :friends ?y MINUS { VALUES (?x ?y) { (:Julia :Anja) } } }": (
        "NOT EXISTS and MINUS need at least one triple between their braces."
    ),
}

TYPES = {
    "SELECT ?x { :Fargo :friends ?x }": (
        "'friends' goes from Person to Person, but 'Fargo' at its head is of type Film."
    ),
    "SELECT ?x { ?x <favorite movie> :Julia }": (
        "'favorite movie' goes from Person to Film, but 'Julia' at its tail is of type Person."
    ),
    "SELECT ?x { ?x <favorite movie>/:friends ?y }": (
        "'friends' goes from Person to Person, but ?.1 at its head must be of type Film elsewhere."
    ),
    "SELECT ?x { ?y <favorite movie> ?x { ?z :friends ?x } }": (
        "'friends' goes from Person to Person, but ?x at its tail must be of type Film elsewhere."
    ),
    "SELECT ?x { ?x <favorite movie> ?x }": (
        "'favorite movie' goes from Person to Film, never back to the same type, so ?x cannot be "
        "both."
    ),
    "SELECT ?x { VALUES ?x { :Fargo :Primer } ?x :friends ?y }": (
        "'friends' goes from Person to Person, but ?x at its head must be of type Film elsewhere."
    ),
}

UNSUPPORTED = {
    "SELECT ?x { ?x :friends ?y OPTIONAL { ?y :likes ?z } }": (
        "OPTIONAL is not supported (line 1, column 28)"
    ),
    "SELECT ?x { ?x :friends ?y } GROUP BY ?x": "GROUP BY is not supported (line 1, column 30)",
    "SELECT (COUNT(?x) AS ?n) { ?x :friends ?y }": "COUNT is not supported (line 1, column 9)",
    "SELECT ?x { ?x :friends ?y BIND(?y AS ?z) }": "BIND is not supported (line 1, column 28)",
    "SELECT ?x {\n?x :friends ?y }\nORDER BY ?x": (
        "ORDER BY is not supported (line 3, column 1); answers come ranked, the best first."
    ),
    "SELECT ?x { ?x :friends ?y } OFFSET 3": "OFFSET is not supported (line 1, column 30)",
    "SELECT ?x { ?x :friends ?y } HAVING(?x != :Julia)": "HAVING is not supported",
    "SELECT ?x FROM <g> { ?x :friends ?y }": "FROM is not supported (line 1, column 11)",
    "SELECT ?x { GRAPH <g> { ?x :friends ?y } }": "GRAPH is not supported (line 1, column 13)",
    "SELECT ?x { SERVICE <g> { ?x :friends ?y } }": "SERVICE is not supported (line 1, column 13)",
    "SELECT ?x { ?x :friends ?y { SELECT ?y { ?y :likes ?z } } }": (
        "A SELECT within a query is not supported (line 1, column 30)"
    ),
    "CONSTRUCT { ?x :friends ?y } WHERE { ?x :friends ?y }": (
        "CONSTRUCT is not supported (line 1, column 1)"
    ),
    "DESCRIBE :Julia": "DESCRIBE is not supported (line 1, column 1)",
    "PREFIX e: <e>\nINSERT DATA { e:a e:b e:c }": "INSERT is not supported (line 2, column 1)",
    "SELECT ?x { :Julia :friends* ?x }": (
        "The operator or path '*' is not supported (line 1, column 28)"
    ),
    "SELECT ?x { :Julia :friends+ ?x }": "The operator or path '+' is not supported",
    "SELECT ?x { :Julia :friends? ?x }": "The operator or path '?' is not supported",
    "SELECT ?x { :Julia !:friends ?x }": (
        "The operator or path '!' is not supported (line 1, column 20)"
    ),
    "SELECT ?x { :Julia ?p ?x }": (
        "The variable ?p in the place of a relation is not supported; supported are SELECT and ASK"
    ),
    "SELECT ?x { ?x :friends ?y FILTER(?x = :Julia) }": (
        "The operator or path '=' is not supported (line 1, column 38); use one name for both, or "
        "VALUES."
    ),
    "SELECT ?x { ?x :friends ?y FILTER(?x < ?y) FILTER(?y > ?x) }": (
        "The operator or path '<' is not supported (line 1, column 38)"
    ),
    "SELECT ?x { ?x :friends ?y FILTER(?x != ?y || ?y != :Julia) }": (
        "The operator or path '||' is not supported (line 1, column 44)"
    ),
    "SELECT ?x { ?x :friends ?y FILTER EXISTS { ?y :likes ?z } }": (
        "FILTER EXISTS is not supported (line 1, column 35); write its triples into the pattern "
        "instead."
    ),
    "SELECT ?x { ?x :friends ?y FILTER(?x NOT IN (:Julia)) }": (
        "IN is not supported (line 1, column 42); write VALUES, or one != for each name."
    ),
    'SELECT ?x { ?x :friends ?y FILTER(REGEX(?x, "J")) }': (
        "REGEX is not supported (line 1, column 35)"
    ),
    "SELECT ?x { ?x :friends ?y FILTER(?x) }": "A FILTER other than NOT EXISTS and != is not",
    "SELECT ?x { ?x :friends 42 }": "The number 42 is not supported (line 1, column 25)",
    'SELECT ?x { ?x :likes "Fargo"@en }': (
        "The language tag @en is not supported (line 1, column 30)"
    ),
    'SELECT ?x { ?x :likes "1"^^<int> }': "A datatype (^^) is not supported (line 1, column 26)",
    "SELECT ?x { ?x :likes true }": "TRUE is not supported (line 1, column 23)",
}

TOO_LARGE = {
    "SELECT ?x { ?x " + "/".join(["(:friends|:likes)"] * 10) + " ?y }": (
        f"The query is too large: its alternatives (UNION, | and VALUES) multiply to more than "
        f"{MOST_PATTERNS:,} patterns; ask several smaller ones."
    ),
    "SELECT ?x { ?x " + "/".join([":friends"] * (MOST_EDGES + 1)) + " ?y }": (
        f"The query is too large: one of its patterns has more than {MOST_EDGES} edges; "
        "ask several smaller ones."
    ),
    "ASK { " + "?x :friends ?y . " * 6_000 + "}": (
        f"The query has 102,007 characters, more than {MOST_CHARACTERS:,}; "
        "ask several smaller ones."
    ),
    "ASK { " + "?x :friends ?y . " * 1_000 + "}": (
        f"The query has 4,003 words and signs, more than {MOST_TOKENS:,}; ask several smaller ones."
    ),
    "ASK { :Julia :friends " + " , ".join(["?x"] * (MOST_TRIPLES + 1)) + "}": (
        f"The query has {MOST_TRIPLES + 1} triples, more than {MOST_TRIPLES}; "
        "ask several smaller ones."
    ),
    "ASK " + "{ " * 200 + "?x :friends ?y " + "}" * 200: (
        "The query is too large: too many triples in one group, or braces within braces; "
        "ask several smaller ones."
    ),
}


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    people = ("Julia", "Sachin", "Anja")
    movies = ("Fargo", "Primer", "Solaris 1972", "Solaris 2002")
    return KnowledgeGraph.from_triples(
        [
            ("Julia", "friends", "Sachin"),
            ("Sachin", "friends", "Anja"),
            ("Julia", "favorite movie", "Fargo"),
            ("Anja", "favorite movie", "Primer"),
            ("Julia", "likes", "Anja"),
            ("Julia", "likes", "Solaris 1972"),
            ("Anja", "likes", "Solaris 2002"),
        ],
        types={**dict.fromkeys(people, "Person"), **dict.fromkeys(movies, "Film")},
        labels={"Solaris 1972": "Solaris", "Solaris 2002": "Solaris"},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(text, message, id=f"{kind}-{number}")
        for kind, cases in {
            "syntax": SYNTAX,
            "names": NAMES,
            "shapes": SHAPES,
            "types": TYPES,
            "unsupported": UNSUPPORTED,
            "too-large": TOO_LARGE,
        }.items()
        for number, (text, message) in enumerate(cases.items())
    ],
)
def test_a_bad_query_is_one_clear_sentence(text: str, message: str, graph: KnowledgeGraph) -> None:
    with pytest.raises(InputError) as error:
        parse_sparql(text, graph)
    said = str(error.value)
    assert said == message if message.endswith((".", "?")) else said.startswith(message)
    assert said.endswith((".", "?"))
    assert "\n" not in said
