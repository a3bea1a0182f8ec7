# SPDX-License-Identifier: MIT
"""One-line mutations of the library's C sources: what to change, and how each change is named."""

import hashlib
import re
from collections import namedtuple

from .build import ROOT

# `nth` counts the same change in the same function, so that a name outlives edits elsewhere.
Mutant = namedtuple("Mutant", "id file line function operator before after change")

SWAPS = [  # Operators with blanks around them: none is a pointer's star or an argument's sign.
    ("and to or", r" && ", " || "), ("or to and", r" \|\| ", " && "),
    ("< to <=", r" < ", " <= "), ("<= to <", r" <= ", " < "),
    ("> to >=", r" > ", " >= "), (">= to >", r" >= ", " > "),
    ("== to !=", r" == ", " != "), ("!= to ==", r" != ", " == "),
    ("+ to -", r"(?<=[\w)\]]) \+ (?=[\w(])", " - "), ("- to +", r"(?<=[\w)\]]) - (?=[\w(])", " + "),
    ("+= to -=", r" \+= ", " -= "), ("-= to +=", r" -= ", " += "),
    ("++ to --", r"\+\+", "--"), ("-- to ++", r"--", "++"),
    ("drop !", r"(?<=[( ])!(?=[a-z(])", ""),
    ("constant + 1", r"(?<=[=<>+,-] )(\d+)(?=[;), ])", lambda m: str(int(m[1]) + 1)),
    ("return the other", r"\breturn true;", "return false;"),
    ("return the other", r"\breturn false;", "return true;"),
    ("return the other", r"\breturn CUDA_SUCCESS;", "return CUDA_ERROR_UNKNOWN;"),
    ("return the other", r"\breturn result;", "return CUDA_SUCCESS;"),
]
CONDITION = re.compile(r"^( *(?:\} else )?(?:if|while) \()(.*)(\)(?: \{)?)$")
# A call or an assignment that is a statement and a line of its own.
STATEMENT = re.compile(r"^( +)((?:\([\w *]+\))?[\w>.\[\]&*-]+(?:\(.*\)| [-+|&]?= .*|\+\+|--);)$")
NOT_DROPPED = re.compile(r"^ +(return|goto|case|default|break|continue|else|do|static|const|struct|"
                         r"enum|unsigned|uint\w+|size_t|bool|int|char|CU\w+|void)\b")
# Lines that only word a message, check themselves, or are a hint.
TALK = re.compile(r"zc_message|assert|__builtin_(expect|unreachable|prefetch)|_Static_assert|"
                  r"__attribute__|sched_yield|usleep|madvise")


def masked(text):
    """The text with blanks for comments and for what stands in quotes."""
    blank = r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    return re.sub(blank, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def bodies(lines):
    """(function, index of a line in its body) for each line of code in a function."""
    name = None
    for i, line in enumerate(lines):
        if line.startswith("{"):
            head = " ".join(above for above in lines[max(0, i - 4):i] if not above.startswith("#"))
            found = re.findall(r"\b(?!__)(\w+)\(", head.rpartition("}")[2].rpartition(";")[2])
            body = re.search(r"ZC_\w*BODY\w*\((\w+)", head.rpartition("}")[2])
            name = body[1] if body else found[0] if found else None
        elif line.startswith("}"):
            name = None
        elif name and line.strip() and not line.startswith("#"):
            yield name, i


def changes(line):
    """(operator, changed line) of each change that a line without its quotes allows."""
    if TALK.search(line):
        return
    for operator, pattern, new in SWAPS:
        for m in re.finditer(pattern, line):
            yield operator, m.start(), m.end(), new(m) if callable(new) else new
    condition = CONDITION.match(line)
    if condition and condition[2].count("(") == condition[2].count(")"):
        yield "negate", condition.start(2), condition.end(2), None
    statement = STATEMENT.match(line)
    if statement and not NOT_DROPPED.match(line):
        yield "drop", statement.start(2), statement.end(2), ";"


def mutants_of(file, text):
    lines, bare = text.split("\n"), [b.rstrip() for b in masked(text).split("\n")]
    count = {}
    for function, i in bodies(bare):
        # A statement that began above is not to lose its end.
        whole = bare[i - 1].rstrip().endswith((";", "{", "}", ")", ":", "else")) or \
            not bare[i - 1].strip()
        for operator, start, end, new in changes(bare[i]):
            if operator == "drop" and not whole:
                continue
            line = lines[i]
            new = f"!({line[start:end]})" if new is None else new
            after = line[:start] + new + line[end:]
            key = (function, operator, line.strip(), after.strip())
            nth = count[key] = count.get(key, 0) + 1
            name = hashlib.sha256("\0".join((file, *key, str(nth))).encode()).hexdigest()[:10]
            yield Mutant(name, file, i + 1, function, operator, line.strip(), after.strip(), after)


def applied(mutant):
    """The text of the mutant's file."""
    lines = (ROOT / mutant.file).read_text().split("\n")
    return "\n".join(lines[:mutant.line - 1] + [mutant.change] + lines[mutant.line:])


def all_mutants(folders=("shim", "policy")):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.c")):
            if not path.stem.endswith("_aarch64"):
                yield from mutants_of(str(path.relative_to(ROOT)), path.read_text())


def lines_of_functions(folders=("shim", "policy")):
    """{(file, line): (function, lines from its first one)}"""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.c")):
            first, file = {}, str(path.relative_to(ROOT))
            for name, i in bodies([b.rstrip() for b in masked(path.read_text()).split("\n")]):
                found[file, i + 1] = name, i - first.setdefault(name, i)
    return found


def sample(mutants, seed):
    """The same order for the same seed; a change elsewhere takes no mutant's place."""
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.id}".encode()).digest())
