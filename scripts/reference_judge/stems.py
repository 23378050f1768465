"""Says which words count as the same: inflected forms, number words, spelled-out signs.

    designed, designing, designs -> design      built -> build      two -> 2      percent -> %
    located, location, locations -> locat

Words of one class get the same identity, so that another form of a word matches as well as the word itself.
"""

from functools import cache

VOWELS = frozenset("aeiouy")
_SHORTEST_STEM = 3
_SHORTEST_ROOT = 4
_DERIVATIONS = """
ization isation ational ation ations ition itions ement ements ment ments ity ities ion ions ance ances ence ences
ing ings er ers or ors ist ists ism isms ive ives ness al als ical ic ics ous able ible ian ians ant ants ent ents
ful ary ory age ure y i
"""

_EQUIVALENTS = """
be: am is are was were been being
have: has had having
do: does did done doing
go: goes went gone going
say: says said saying
make: makes made making
take: takes took taken taking
give: gives gave given giving
get: gets got gotten getting
come: comes came coming
become: becomes became becoming
know: knows knew known knowing
see: sees saw seen seeing
think: thinks thought thinking
find: finds found finding
tell: tells told telling
leave: leaves left leaving
feel: feels felt feeling
bring: brings brought bringing
begin: begins began begun beginning
keep: keeps kept keeping
hold: holds held holding
write: writes wrote written writing writer
stand: stands stood standing
hear: hears heard hearing
meet: meets met meeting
run: runs ran running
pay: pays paid paying
sit: sits sat sitting
speak: speaks spoke spoken speaking
lead: leads led leading
grow: grows grew grown growing
lose: loses lost losing
fall: falls fell fallen falling
send: sends sent sending
build: builds built building
understand: understands understood understanding
draw: draws drew drawn drawing
break: breaks broke broken breaking
spend: spends spent spending
rise: rises rose risen rising
drive: drives drove driven driving
buy: buys bought buying
wear: wears wore worn wearing
choose: chooses chose chosen choosing
win: wins won winning
teach: teaches taught teaching
fight: fights fought fighting
catch: catches caught catching
sing: sings sang sung singing
sell: sells sold selling
seek: seeks sought seeking
shoot: shoots shot shooting
fly: flies flew flown flying
eat: eats ate eaten eating
sleep: sleeps slept sleeping
throw: throws threw thrown throwing
show: shows showed shown showing
bear: bears bore borne bearing
mean: means meant meaning
die: dies died dying dead death
lie: lies lying
marry: marries married marrying marriage
man: men
woman: women
child: children
person: people persons
foot: feet
tooth: teeth
mouse: mice
wife: wives
life: lives
half: halves
leaf: leaves
index: indices indexes
country: countries
0: zero
1: one
2: two
3: three
4: four
5: five
6: six
7: seven
8: eight
9: nine
10: ten
11: eleven
12: twelve
13: thirteen
14: fourteen
15: fifteen
16: sixteen
17: seventeen
18: eighteen
19: nineteen
20: twenty
30: thirty
40: forty
50: fifty
60: sixty
70: seventy
80: eighty
90: ninety
100: hundred
1000: thousand
first: 1st
second: 2nd
third: 3rd
fourth: 4th
fifth: 5th
sixth: 6th
seventh: 7th
eighth: 8th
ninth: 9th
tenth: 10th
%: percent percentage pct
&: and
colour: color
centre: center
theatre: theater
organize: organise
january: jan
february: feb
august: aug
september: sept
october: oct
november: nov
december: dec
germany: german germans
france: french frenchman
spain: spanish
italy: italian italians
england: english
britain: british
china: chinese
japan: japanese
russia: russian russians
america: american americans
canada: canadian canadians
australia: australian australians
india: indian indians
europe: european europeans
africa: african africans
asia: asian asians
ireland: irish
scotland: scottish
wales: welsh
greece: greek greeks
turkey: turkish
poland: polish
sweden: swedish
norway: norwegian
denmark: danish
netherlands: dutch
mexico: mexican mexicans
brazil: brazilian
korea: korean
israel: israeli
iran: iranian
iraq: iraqi
egypt: egyptian
rome: roman romans
""".strip()

_LONGEST_FIRST = sorted(_DERIVATIONS.split(), key=lambda suffix: (-len(suffix), suffix))
_CLASS_OF = {
    form: head
    for head, _, forms in (line.partition(": ") for line in _EQUIVALENTS.splitlines())
    for form in (head, *forms.split())
}


@cache
def stem(word: str) -> str:
    """Class of a folded word."""
    if word in _CLASS_OF:
        return _CLASS_OF[word]
    if not word.isascii() or not word.isalpha():
        return word
    return _without_derivation(_without_final_e(_without_suffix(word)))


def _without_suffix(word: str) -> str:
    for suffix, replacement in (
        ("sses", "ss"),
        ("ies", "y"),
        ("ied", "y"),
        ("ing", ""),
        ("ed", ""),
        ("ly", ""),
        ("s", ""),
    ):
        if word.endswith(suffix):
            return _stripped(word, suffix, replacement)
    return word


def _stripped(word: str, suffix: str, replacement: str) -> str:
    base = word[: -len(suffix)]
    if len(base) < _SHORTEST_STEM or not VOWELS & set(base):
        return word
    if suffix == "s" and base[-1] in "sui":
        return word
    if suffix == "s" and base.endswith(("xe", "che", "she", "sse", "zze")):
        return base[:-1]
    if suffix in ("ed", "ing"):
        return _undoubled(base)
    return base + replacement


def _undoubled(base: str) -> str:
    doubled = len(base) > _SHORTEST_STEM and base[-1] == base[-2] and base[-1] not in VOWELS | set("lsz")
    return base[:-1] if doubled else base


def _without_final_e(word: str) -> str:
    return word[:-1] if len(word) > _SHORTEST_STEM and word.endswith("e") and word[-2] not in VOWELS else word


def _without_derivation(word: str) -> str:
    for suffix in _LONGEST_FIRST:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_ROOT:
            return word[: -len(suffix)]
    return word
